"""Models, data and stages of a study, by name."""

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import Field

from lib.attention.settings import AnyMechanism, each_of
from lib.backbones.settings import AnyBackbone, Precision
from lib.core.files import MOST_RUNS, check_expansion
from lib.core.settings import BaseSettings, Name, Seeds, check, without_null
from lib.core.weights import ForeignStart
from lib.preparing.settings.corpus import Corpus
from lib.preparing.settings.dataset import Dataset
from lib.preparing.settings.tokenizer import Tokenizer
from lib.preparing.settings.word_vectors import WordVectors
from lib.study.hub import with_encoders, with_published
from lib.study.stages import Model, Stage


class Experiment(BaseSettings):
    """Models, data and stages of a study."""

    seeds: Seeds
    """Seeds; every run is made once per seed."""
    precision: Precision = "bf16"
    """Arithmetic of the forward pass. `fp16` needs a GPU; `bf16` is far slower than `fp32` on a CPU without
    instructions for it (benchmarks/attention_cost.md)."""
    mechanisms: dict[Name, AnyMechanism] = Field(default_factory=dict)
    """Attention mechanisms by name. A name is the canonical spelling of its parameters (`lsh-h2-c64`), with a suffix if
    two entries would share it (`lsh-h2-c64-masked`)."""
    published: dict[Name, ForeignStart] = Field(default_factory=dict)
    """Published models by name, each a folder or a repository of the hub. The name then is that of a backbone with the
    architecture of its config.json, and of its tokeniser; models on this backbone start from its weights."""
    backbones: dict[Name, AnyBackbone]
    """Backbones by name."""
    tokenizers: dict[Name, Tokenizer] = Field(default_factory=dict)
    """Tokenisers by name."""
    word_vectors: dict[Name, WordVectors] = Field(default_factory=dict)
    """Word vectors by name, for baselines of kind `word_vectors`, as a start of recurrent encoders, and for tables."""
    corpora: dict[Name, Corpus] = Field(default_factory=dict)
    """Text without labels, by name."""
    datasets: dict[Name, Dataset] = Field(default_factory=dict)
    """Labelled datasets by name."""
    stages: dict[Name, Stage] = Field(min_length=1)
    """Steps in a model's life, by name."""
    models: dict[Name, Model] = Field(min_length=1)
    """Rows of the tables, in order, by name."""

    @check
    def _runs_can_be_written_out(self) -> Iterator[str]:
        number = sum(
            len(stage.models or self.models) * variants * len(work.seeds or stage.seeds or self.seeds)
            for stage in self.stages.values()
            for variants in [len(stage.combinations())]
            for work in stage.data.values()
        )
        check_expansion("stages", number, "runs", MOST_RUNS)
        return iter(())

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop entries that are null, and what names them, so that a file can remove entries of the one it extends."""
        if not isinstance(values, dict):
            return values
        named = {key: section for key, section in values.items() if isinstance(section, dict)}
        gone = {key: {name for name, entry in section.items() if entry is None} for key, section in named.items()}
        data_gone = gone.get("datasets", set()) | gone.get("corpora", set())
        kept = without_null(cls, values)
        if "models" in named:
            models = {name: _without_data(model, data_gone) for name, model in kept["models"].items()}
            kept["models"] = {
                name: model
                for name, model in models.items()
                if model is not None
                and (not isinstance(model, dict) or not _names_any(model.get("mechanism"), gone.get("mechanisms", ())))
            }
        for name, stage in kept["stages"].items() if "stages" in named else ():
            if isinstance(stage, dict) and isinstance(stage.get("data"), dict):
                entries = {entry: work for entry, work in stage["data"].items() if entry not in data_gone}
                kept["stages"] = kept["stages"] | {name: stage | {"data": entries}}
        return with_encoders(with_published(kept))


def _names_any(mechanism: Any, gone: Collection[str]) -> bool:
    """Whether a model's `mechanism`, not checked yet, names one that is `gone`."""
    return any(name in list(gone) for name in each_of(mechanism))


def _without_data(model: Any, gone: Collection[str]) -> Any:
    """Return a model without the datasets that are `gone`; None if it has no others."""
    if not isinstance(model, dict) or not gone:
        return model
    kept = dict(model)
    if isinstance(named := model.get("datasets"), list) and named:
        kept["datasets"] = [name for name in named if name not in list(gone)]
        if not kept["datasets"]:
            return None
    if isinstance(changes := model.get("changes"), dict):
        kept["changes"] = {
            stage: change | {"data": {name: parts for name, parts in change["data"].items() if name not in gone}}
            if isinstance(change, dict) and isinstance(change.get("data"), dict)
            else change
            for stage, change in changes.items()
        }
    return kept
