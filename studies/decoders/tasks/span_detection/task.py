"""Detection of spans: predicted by token, scored by character.

Shapes: B batch, N tokens of a window; n characters of a document.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy.special import expit
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from lib.backbones.heads.token_classification import TokenClassification
from lib.core.errors import RunError
from lib.core.labels import IGNORED
from lib.reading.spans import marked
from lib.tasks import contract
from lib.tokens.batches import ClassificationCollator
from studies.decoders.backbones.span_finder import Pieces, SpanFinder
from studies.decoders.evaluation.spans import (
    Counts,
    balanced_threshold,
    character_counts,
    character_values,
    searched_threshold,
    span_metrics,
    spans_of,
)
from studies.decoders.tasks.span_detection.settings import Settings


class Document(NamedTuple):
    """Labels and predictions of a document."""

    id: str
    group: int | str | None
    inside: np.ndarray | None
    """Whether each character is in a span [n]; None = unknown."""
    probabilities: np.ndarray
    """Probability of each character, in float16 [n]: decisions use the values stored in the predictions."""


class Task(contract.Task):
    """Find the spans of a document. The best epoch has the highest F1 of characters on validation.

    The loss is the mean cross-entropy of tokens. A token in the overlap of windows counts in each of them.
    """

    best: ClassVar[str] = "f1"
    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        return TokenClassification.auto_model

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: head and names of the classes."""
        return self.parameters.model_dump(exclude={"kind", "threshold"}) | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return ClassificationCollator(tokenizer.pad_token_id)

    def begin(self, split: str, tokens: Dataset) -> None:
        """See `lib.tasks.contract.Task.begin`: the batches lack the data to join windows."""
        self._split, self._tokens = split, tokens

    def prediction_step(self, model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[None, Tensor, Tensor]:
        """Return the score of inside minus that of outside [B, N], and the labels [B, N]."""
        with torch.no_grad():
            logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits.float()
        return None, logits[..., 1] - logits[..., 0], inputs["labels"]

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return `precision`, `recall` and `f1` of characters, the mean `loss` of tokens, on validation `threshold`.

        Raises:
            RunError: a prediction is NaN or inf.
        """
        scores = self._scores(self._split, _stitched(self._tokens, prediction.predictions))
        is_labelled = prediction.label_ids != IGNORED
        margins, labels = prediction.predictions[is_labelled], prediction.label_ids[is_labelled]
        loss = np.logaddexp(0, np.where(labels == 1, -margins, margins), dtype=np.float64).mean()
        return scores | {"loss": float(loss)}

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`.

        `label` and `prediction` are spans, pairs [start, end) of characters; `probabilities` are those of the
        characters, and `true_positives`, `false_positives` and `false_negatives` numbers of characters. The last
        three and `label` are missing in a test split without labels.
        """
        return self._frame(_stitched(tokens, output.predictions))

    def state(self) -> dict[str, float]:
        """See `lib.tasks.contract.Task.state`: the threshold."""
        return {"threshold": self.threshold}

    def restore(self, state: Mapping[str, float]) -> None:
        """See `lib.tasks.contract.Task.restore`."""
        if "threshold" not in state:
            raise RunError(
                "the threshold of spans is missing, which validation chose. Name the model of the whole run."
            )
        self.threshold = state["threshold"]

    def read(self, classifier: SpanFinder, documents: pd.DataFrame) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.read`."""
        return self._frame(self._found(classifier, documents))

    def _found(self, classifier: SpanFinder, documents: pd.DataFrame) -> list[Document]:
        return [
            _document(row.id, getattr(row, "group", None), row.label, len(row.text), pieces)
            for row, pieces in zip(documents.itertuples(), classifier.pieces(documents["text"]), strict=True)
        ]

    def evaluate(self, classifier: SpanFinder, documents: Mapping[str, pd.DataFrame]) -> contract.Evaluation:
        """See `lib.tasks.contract.Task.evaluate`: fitted on training, scored on validation, and on test with labels."""
        texts, spans = documents["train"]["text"], documents["train"]["label"]
        classifier.fit(texts, [marked(pairs, len(text)) for text, pairs in zip(texts, spans, strict=True)])
        frames: list[pd.DataFrame] = []
        metrics: dict[str, float] = {}
        for split, prefix in (("validation", "eval"), ("test", "test")):
            found = self._found(classifier, rows := documents[split])
            if rows["label"].notna().all():
                metrics |= {f"{prefix}_{name}": score for name, score in self._scores(split, found).items()}
            frames.append(self._frame(found).assign(split=split))
        return pd.concat(frames, ignore_index=True), metrics

    def _scores(self, split: str, documents: Sequence[Document]) -> dict[str, float]:
        """Return the scores of a split; those of validation include the chosen threshold."""
        probabilities = np.concatenate([document.probabilities for document in documents]).astype(float)
        inside = np.concatenate([document.inside for document in documents if document.inside is not None])
        if not np.isfinite(probabilities).all():
            raise RunError(
                f"{(~np.isfinite(probabilities)).sum()} characters of {split} have probabilities that are NaN or "
                "inf: the training has diverged. Lower the learning rate, or train in fp32 or bf16."
            )
        chosen: dict[str, float] = {}
        if split == "validation":
            wanted = self.parameters.threshold
            choose = {"search": searched_threshold, "balance": balanced_threshold}
            self.threshold = wanted if isinstance(wanted, float) else choose[wanted](probabilities, inside)
            chosen = {"threshold": self.threshold}
        return {**span_metrics(character_counts(probabilities >= self.threshold, inside)), **chosen}

    def _frame(self, documents: Sequence[Document]) -> pd.DataFrame:
        rows = []
        for identity, group, inside, probabilities in documents:
            found = probabilities.astype(float) >= self.threshold
            row: dict[str, Any] = {
                "id": identity,
                "label": None,
                "prediction": spans_of(found),
                "probabilities": probabilities,
            }
            row |= dict.fromkeys(Counts._fields)
            if inside is not None:
                row |= {"label": spans_of(inside), **character_counts(found, inside)._asdict()}
            rows.append(row | ({} if group is None else {"group": group}))
        counted = all(document.inside is not None for document in documents)
        return pd.DataFrame(rows).astype(dict.fromkeys(Counts._fields, "int64" if counted else "Int64"))


def _stitched(tokens: Dataset, margins: np.ndarray) -> list[Document]:
    """Return the documents of a split, joined from the predictions of their windows.

    Args:
        tokens: the windows [W].
        margins: score of inside minus that of outside, padded [W, N].
    """
    windows = tokens.select_columns([name for name in tokens.column_names if name not in ("input_ids", "labels")])
    of_document: dict[str, list[dict[str, Any]]] = {}
    for window, found in zip(windows, margins, strict=True):
        window["probabilities"] = expit(found[: window["length"]].astype(np.float64))
        of_document.setdefault(window["id"], []).append(window)
    documents = []
    for identity, parts in of_document.items():
        pieces = Pieces(*(np.concatenate([part[name] for part in parts]) for name in Pieces._fields))
        whole = parts[0]
        documents.append(_document(identity, whole.get("group"), whole["spans"], whole["characters"], pieces))
    return documents


def _document(
    identity: str, group: int | str | None, spans: Sequence[Sequence[int]] | None, characters: int, pieces: Pieces
) -> Document:
    """Return a document, joined from its windows."""
    values = character_values(*pieces, characters).astype(np.float16)
    return Document(identity, group, None if spans is None else marked(spans, characters), values)
