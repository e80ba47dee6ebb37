"""The study that is advised, as a file that stands alone: TF-IDF and a published encoder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.advice.encoders import PublishedEncoder
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
from lib.core.files import mapping_text
from lib.study.configuration import load_study

TEXTS = "texts"
"""Name of the own texts in a study."""

SEEDS = (1, 2, 3)
"""Seeds of a study of a published encoder."""


def advised_study(
    encoder: PublishedEncoder,
    question: Question,
    own: OwnTexts,
    limit: int,
    execution: Mapping[str, Any],
    precision: str,
    ngrams: Mapping[str, Any] | None,
) -> str:
    """Return the file of the study that fine-tunes a published encoder, or adapts it to texts without labels.

    Labelled documents longer than the encoder reads are read in segments, too, as one row more; texts without labels
    are cut to its reach.

    Args:
        encoder: the encoder.
        question: question about the texts.
        own: the texts. Without labels, the encoder is only adapted to them.
        limit: tokens that documents are cut to.
        execution: settings of `execution`, `results` among them.
        precision: arithmetic of the forward pass.
        ngrams: settings of TF-IDF that differ from the defaults; None = it is left out.

    Raises:
        ConfigError: it does not load; that is a fault of the texts' options.
    """
    models: dict[str, Any] = {encoder.name: {"backbone": encoder.name}}
    backbones: dict[str, Any] = {}
    if "repository" in encoder.place:  # plans without a network
        backbones[encoder.name] = {"architecture": dict(encoder.architecture)}
    if own.labelled and limit > encoder.reach:
        segments = f"{encoder.name}-segments"
        models[encoder.name]["max_tokens"] = encoder.reach
        backbones[segments] = {"kind": "hierarchical", "encoder": encoder.name, "segment": encoder.reach}
        models[segments] = {"backbone": segments}
    report: dict[str, Any] = {"title": title(question)}
    if own.labelled:
        stage, task = "finetune", {"kind": "sequence_classification", "classifier_pooling": "mean"}
        report["tables"] = {"f1": {"stage": stage, "columns": ["f1", "minutes"]}}
        report["analyses"] = {"prediction_cost": {"kind": "prediction_cost", "stage": stage}}
        if ngrams is not None:
            backbones["tfidf"] = {"kind": "tfidf", **ngrams}
            models = {"tfidf": {"backbone": "tfidf"}} | models
            report["baseline"] = "tfidf"
        if len(models) > 1:
            compared = {kind: {"kind": kind, "stage": stage} for kind in ("answer", "significance")}
            report |= {"tables": compared | report["tables"], "reference": encoder.name, "opens_with": ["answer"]}
    else:
        stage, task = "tapt", {"kind": "masked_lm"}
        report["tables"] = {stage: {"stage": stage, "columns": ["memory", "minutes", "loss"]}}
    texts = _texts(question, own, limit if own.labelled else min(limit, encoder.reach))
    settings = encoder.recipe(own.splits["train"], labelled=own.labelled)
    experiment = {
        "seeds": list(SEEDS),
        "precision": precision,
        "published": {encoder.name: dict(encoder.place)},
        "backbones": backbones,
        "datasets" if own.labelled else "corpora": {TEXTS: texts},
        "stages": {stage: {"task": task, "recipe": settings, "data": {TEXTS: {}}}},
        "models": models,
    }
    values: dict[str, Any] = {"experiment": experiment, "execution": dict(execution), "report": report}
    try:
        load_study([("the advised study", values)])
    except ConfigError as error:
        raise ConfigError(f"the advised study does not load: {error}") from error
    return mapping_text(values, width=110)


def _texts(question: Question, own: OwnTexts, limit: int) -> dict[str, Any]:
    """Return the own texts, cut to a limit, as a dataset if they have labels, and else as a corpus."""
    source = {"source": "local", "local": {"files": {"train": list(question.texts)}}, **own.settings}
    size = {"max_tokens": limit}
    if own.labelled:
        return source | size
    parts = {"short": 0, "long": own.splits["train"], "held_out": own.splits["held_out"]}
    return source | {part: {"articles": articles} | size for part, articles in parts.items()}


def title(question: Question) -> str:
    """Return the title of the study's report, which names the file of the texts, or the first of several."""
    first, *others = question.texts
    name = " ".join(cut(Path(first).name, MOST_OF_VALUE).split())
    return f"Models on {name}" + (f" and {len(others)} more" if others else "")
