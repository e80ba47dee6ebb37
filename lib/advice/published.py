"""Published encoders that are advised, and the study that fine-tunes one on own texts."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lib.advice.question import Question
from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.settings import sentences
from lib.study.configuration import load_study

TEXTS = "texts"
"""Name of the own texts in a study."""

UNLIMITED = 2**20
"""Tokens that an encoder without a limit reads, as good as any number."""


@dataclass(frozen=True)
class PublishedEncoder:
    """An encoder with exact attention, on the hub or in a folder.

    Args:
        name: of its model in a study.
        place: of weights and tokeniser, as a configuration says it: repository and revision, or folder.
        architecture: what its `config.json` changes from the defaults of transformers.
        languages: that it reads, in words; None = unknown.
    """

    name: str
    place: Mapping[str, str]
    architecture: Mapping[str, Any]
    languages: str | None

    @property
    def title(self) -> str:
        """Its repository, or its folder."""
        return next(iter(self.place.values()))

    @property
    def reach(self) -> int:
        """Tokens that it reads."""
        return self.parameters().longest() or UNLIMITED

    def parameters(self) -> Any:
        """Return the parameters of its backbone."""
        return BACKBONES.parse({"kind": "pretrained", "architecture": dict(self.architecture)})


_BERT = {"model_type": "bert", "max_position_embeddings": 512, "vocab_size": 30_522}

SMALL = PublishedEncoder(
    "minilm",
    {"repository": "sentence-transformers/all-MiniLM-L6-v2", "revision": "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"},
    _BERT | {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "English",
)
"""It has no head for masked language modelling, so it is for labelled texts."""

MASKED = PublishedEncoder(
    "bert",
    {"repository": "google-bert/bert-base-uncased", "revision": "86b5e0934494bd15c9632b12f734a8a67f723594"},
    _BERT | {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "English",
)

MULTILINGUAL = PublishedEncoder(
    "xlm-r",
    {"repository": "FacebookAI/xlm-roberta-base", "revision": "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089"},
    {
        "model_type": "xlm-roberta",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 514,
        "layer_norm_eps": 1.0e-5,
        "type_vocab_size": 1,
        "vocab_size": 250_002,
    },
    "100 languages",
)

RECIPE = {"epochs": 3, "learning_rate": 2.0e-5, "min_lr_ratio": 0.0, "batch_size": 16, "warmup_ratio": 0.1}
"""Usual recipe for encoders of these sizes. Source: Devlin et al. (2019), BERT, appendix A.3."""


def published_encoder(*, labelled: bool, multilingual: bool, folder: str | None = None) -> PublishedEncoder:
    """Return the encoder to start from: the one in `folder`, or one of the hub.

    Raises:
        ConfigError: the folder holds no encoder of a known family.
    """
    if folder is not None:
        return _at_hand(Path(folder))
    if multilingual:
        return MULTILINGUAL
    return SMALL if labelled else MASKED


def _at_hand(folder: Path) -> PublishedEncoder:
    path = folder / "config.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        architecture = BACKBONES.load("pretrained", "fields").architecture_of(fields)
        found = PublishedEncoder(
            re.sub("[^A-Za-z0-9.-]", "-", folder.name), {"folder": str(folder)}, architecture, None
        )
        found.parameters()
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(place)}: {sentence}" for place, sentence in sentences(error))
        raise ConfigError(f"{path}: no encoder to start from. {problems}.") from error
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: no encoder to start from ({error}). Name the folder of a published one.") from error
    return found


def published_study(
    question: Question,
    encoder: PublishedEncoder,
    *,
    limit: int,
    documents: int,
    held_out: int,
    execution: Mapping[str, Any],
    precision: str,
) -> str:
    """Return the file of a study as YAML: a published encoder and TF-IDF, or only adapted to texts without labels.

    Labelled documents longer than the encoder reads are read in segments, too, as one row more.

    Args:
        question: what was asked about the texts.
        encoder: to start from.
        limit: tokens that documents are cut to; texts without labels to no more than the encoder reads.
        documents: number of documents.
        held_out: of those, how many texts without labels are held out.
        execution: settings of `execution`.
        precision: arithmetic of the forward pass.

    Raises:
        ConfigError: it does not load; that is a fault of the texts' options.
    """
    longer = question.label is not None and limit > encoder.reach
    size = {"max_tokens": limit if longer else min(limit, encoder.reach)}
    source = {"source": "local", "local": {"files": {"train": list(question.texts)}}, "text": question.column}
    model: dict[str, Any] = {"backbone": encoder.name}
    experiment: dict[str, Any] = {
        "seeds": [1, 2, 3],
        "precision": precision,
        "published": {encoder.name: dict(encoder.place)},
        "backbones": {},
    }
    if "repository" in encoder.place:  # plans without a network
        experiment["backbones"][encoder.name] = {"architecture": dict(encoder.architecture)}
    if question.label is None:
        parts = {"short": 0, "long": documents - held_out, "held_out": held_out}
        experiment["corpora"] = {TEXTS: source | {part: {"articles": n} | size for part, n in parts.items()}}
        stages = {"tapt": {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {TEXTS: {}}}}
        models = {encoder.name: model}
        report: dict[str, Any] = {"tables": {"tapt": {"stage": "tapt", "columns": ["memory", "minutes", "loss"]}}}
    else:
        experiment["backbones"]["tfidf"] = {"kind": "tfidf"}
        labelled = source | {"label": question.label, "labels": list(question.labels)} | size
        experiment["datasets"] = {TEXTS: labelled}
        task = {"kind": "sequence_classification", "classifier_pooling": "mean"}
        stages = {"finetune": {"task": task, "recipe": RECIPE, "data": {TEXTS: {}}}}
        models = {"tfidf": {"backbone": "tfidf"}, encoder.name: model}
        if longer:
            segments = f"{encoder.name}-segments"
            model["max_tokens"] = encoder.reach
            experiment["backbones"][segments] = {
                "kind": "hierarchical",
                "encoder": encoder.name,
                "segment": encoder.reach,
            }
            models[segments] = {"backbone": segments}
        report = {
            "tables": {
                "f1": {"stage": "finetune", "columns": ["f1"]},
                "significance": {"kind": "significance", "stage": "finetune"},
            },
            "reference": encoder.name,
            "baseline": "tfidf",
        }
    values = {
        "experiment": experiment | {"stages": stages, "models": models},
        "report": report,
        "execution": dict(execution),
    }
    try:
        load_study([("the advised study", values)])
    except ConfigError as error:
        raise ConfigError(f"the advised study does not load: {error}") from error
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)
