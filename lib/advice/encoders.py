"""Published encoders that are advised, and the study that fine-tunes one on own texts."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.backbones.settings import BACKBONES
from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
from lib.core.files import mapping_text
from lib.core.settings import sentences
from lib.study.configuration import load_study

TEXTS = "texts"
"""Name of the own texts in a study."""

UNLIMITED = 2**20
"""Tokens that an encoder without a limit is said to read."""

BATCH_SIZE, STEPS = 16, 250
"""Documents per optimiser step, and optimiser steps that a training has, at least, if the most epochs allow it."""

EPOCHS = (3, 20)
"""Epochs of a training, at least and at most. Source: Mosbach et al. (2021), who take 20 for small datasets."""

RATES = ((50e6, 1.0e-4), (300e6, 5.0e-5), (math.inf, 2.0e-5))
"""Learning rates of encoders with fewer weights than this, embeddings included.

Only the first was measured here, with MiniLM. The others are of the range in Devlin et al. (2019), BERT, appendix A.3.
"""


@dataclass(frozen=True)
class PublishedEncoder:
    """An encoder with exact attention, on the hub or in a folder.

    Args:
        name: name of its model in a study.
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

    def recipe(self, documents: int, *, labelled: bool) -> dict[str, Any]:
        """Return the recipe to train it with; the epoch with the best score on validation is kept if `labelled`.

        Args:
            documents: number of training documents.
            labelled: whether it gets a head with random weights, which learns faster than the encoder.
        """
        epochs = min(max(EPOCHS[0], math.ceil(STEPS / math.ceil(documents / BATCH_SIZE))), EPOCHS[1])
        rate = next(rate for weights, rate in RATES if self.parameters().weights(0) < weights)
        recipe = {"epochs": epochs, "learning_rate": rate, "min_lr_ratio": 0.0, "batch_size": BATCH_SIZE}
        return recipe | {"warmup_ratio": 0.1} | ({"head_lr_multiplier": 10.0} if labelled else {})


@dataclass(frozen=True)
class EncoderCost:
    """Estimated cost of a row of a published encoder on this machine."""

    row: str
    tokens_per_second: float
    """Tokens that a training step reads."""
    epoch_seconds: float
    seconds: float
    """Seconds of one run: training, evaluations and the start of its program."""


_BERT = {"model_type": "bert", "max_position_embeddings": 512, "vocab_size": 30_522}

SMALL = PublishedEncoder(
    "minilm",
    {"repository": "sentence-transformers/all-MiniLM-L6-v2", "revision": "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"},
    _BERT | {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "English",
)
"""It has no head for masked language modelling, so it is only for labelled texts."""

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

SEEDS = (1, 2, 3)


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
        rules = BACKBONES.load("pretrained", "fields")
        if reason := rules.config_error(fields):
            raise ConfigError(f"{path}: no encoder to start from: it {reason}.")
        architecture = rules.architecture_of(fields)
        found = PublishedEncoder(_model_name(folder), {"folder": str(folder)}, architecture, None)
        found.parameters()
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(place)}: {sentence}" for place, sentence in sentences(error))
        raise ConfigError(f"{path}: no encoder to start from. {problems}.") from error
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: no encoder to start from ({error}). Name the folder of a published one.") from error
    return found


def _model_name(folder: Path) -> str:
    """Return the name of a folder as that of a model, which no other row has."""
    name = re.sub("[^A-Za-z0-9.-]", "-", folder.resolve().name).strip(".-")
    return name if name not in ("", "tfidf") else f"{name}-encoder".strip("-")


def published_study(
    question: Question,
    own: OwnTexts,
    encoder: PublishedEncoder,
    *,
    limit: int,
    execution: Mapping[str, Any],
    precision: str,
    ngrams: Mapping[str, Any] | None,
) -> str:
    """Return the file of a study as YAML: a published encoder and TF-IDF, or only adapted to texts without labels.

    Labelled documents longer than the encoder reads are read in segments, too, as one row more.

    Args:
        question: question about the texts.
        own: the texts.
        encoder: to start from.
        limit: tokens that documents are cut to; texts without labels to no more than the encoder reads.
        execution: settings of `execution`.
        precision: arithmetic of the forward pass.
        ngrams: settings of TF-IDF that differ from the defaults; None = it is left out.

    Raises:
        ConfigError: it does not load; that is a fault of the texts' options.
    """
    longer = own.labelled and limit > encoder.reach
    size = {"max_tokens": limit if longer else min(limit, encoder.reach)}
    texts = local_texts(question, own, size)
    recipe = encoder.recipe(own.splits["train"], labelled=own.labelled)
    model: dict[str, Any] = {"backbone": encoder.name}
    experiment: dict[str, Any] = {
        "seeds": list(SEEDS),
        "precision": precision,
        "published": {encoder.name: dict(encoder.place)},
        "backbones": {},
    }
    if "repository" in encoder.place:  # plans without a network
        experiment["backbones"][encoder.name] = {"architecture": dict(encoder.architecture)}
    report: dict[str, Any]
    if not own.labelled:
        experiment["corpora"] = {TEXTS: texts}
        stages = {"tapt": {"task": {"kind": "masked_lm"}, "recipe": recipe, "data": {TEXTS: {}}}}
        models = {encoder.name: model}
        report = {"tables": {"tapt": {"stage": "tapt", "columns": ["memory", "minutes", "loss"]}}}
    else:
        experiment["datasets"] = {TEXTS: texts}
        task = {"kind": "sequence_classification", "classifier_pooling": "mean"}
        stages = {"finetune": {"task": task, "recipe": recipe, "data": {TEXTS: {}}}}
        models = {encoder.name: model}
        report = {
            "tables": {"f1": {"stage": "finetune", "columns": ["f1", "minutes"]}},
            "analyses": {"prediction_cost": {"kind": "prediction_cost", "stage": "finetune"}},
        }
        if ngrams is not None:
            experiment["backbones"]["tfidf"] = {"kind": "tfidf", **ngrams}
            models = {"tfidf": {"backbone": "tfidf"}} | models
            report["baseline"] = "tfidf"
        if longer:
            segments = f"{encoder.name}-segments"
            model["max_tokens"] = encoder.reach
            experiment["backbones"][segments] = {
                "kind": "hierarchical",
                "encoder": encoder.name,
                "segment": encoder.reach,
            }
            models[segments] = {"backbone": segments}
        if len(models) > 1:
            comparisons = {"answer": {"kind": "answer", "stage": "finetune"}}
            comparisons |= {"significance": {"kind": "significance", "stage": "finetune"}}
            report |= {"tables": comparisons | report["tables"], "reference": encoder.name}
            report["opens_with"] = ["answer"]
    values = {
        "experiment": experiment | {"stages": stages, "models": models},
        "report": {"title": title(question)} | report,
        "execution": dict(execution),
    }
    try:
        load_study([("the advised study", values)])
    except ConfigError as error:
        raise ConfigError(f"the advised study does not load: {error}") from error
    return mapping_text(values, width=110)


def title(question: Question) -> str:
    """Return the title of the study's report, which names the file of the texts, or the first of several."""
    first, *others = question.texts
    name = " ".join(cut(Path(first).name, MOST_OF_VALUE).split())
    return f"Models on {name}" + (f" and {len(others)} more" if others else "")


def local_texts(question: Question, own: OwnTexts, size: dict[str, int]) -> dict[str, Any]:
    """Return the own texts as an entry of a study, of its datasets if they have labels and else of its corpora."""
    source = {"source": "local", "local": {"files": {"train": list(question.texts)}}, **own.settings}
    if own.labelled:
        return source | size
    parts = {"short": 0, "long": own.splits["train"], "held_out": own.splits["held_out"]}
    return source | {part: {"articles": articles} | size for part, articles in parts.items()}
