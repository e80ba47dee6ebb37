"""Models, data and stages of a study, by name."""

from collections.abc import Collection
from typing import Any

from pydantic import Field

from lib.attention.settings import AnyMechanism, each_of
from lib.backbones.settings import AnyBackbone, Precision
from lib.core.settings import BaseSettings, Name, Seeds, without_null
from lib.core.weights import EncoderSettings, ForeignStart
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
    encoders: dict[Name, EncoderSettings] = Field(default_factory=dict)
    """Encoders that do not train, by name, for backbones of kind `frozen`; their vectors of a dataset are made once."""
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

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Drop entries that are null, and what names them, so that a file can remove entries of the one it extends."""
        if not isinstance(values, dict):
            return values
        kept = without_null(cls, values)
        gone = {
            key: [name for name, entry in section.items() if entry is None]
            for key, section in values.items()
            if isinstance(section, dict)
        }
        data = [*gone.get("corpora", ()), *gone.get("datasets", ())]
        for key in gone.keys() & {"models", "stages"}:
            kept[key] = {name: _without(data, each) for name, each in kept[key].items()}
        for name, model in list(kept["models"].items()) if "models" in gone else ():
            mechanisms = each_of(model.get("mechanism")) if isinstance(model, dict) else ()
            if model is None or any(each in gone.get("mechanisms", ()) for each in mechanisms):
                del kept["models"][name]
        return with_encoders(with_published(kept))


def _without(gone: Collection[str], values: Any) -> Any:
    """Return a section, not checked yet, without entries that are gone, at any depth; None if it was for these alone.

    Args:
        gone: names of corpora and datasets, which sections have below `data` and in a list `datasets`.
        values: the section.
    """
    if not isinstance(values, dict) or not gone:
        return values
    kept = {key: _without(gone, value) for key, value in values.items()}
    if isinstance(entries := kept.get("data"), dict):
        kept["data"] = {name: entry for name, entry in entries.items() if name not in gone}
    if isinstance(named := kept.get("datasets"), list) and named:
        kept["datasets"] = [name for name in named if name not in gone]
    return None if named and kept["datasets"] == [] else kept
