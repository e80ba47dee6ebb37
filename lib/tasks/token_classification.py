"""Classification of words by their first token: tagging, and tasks with an answer at every position.

Shapes: B batch, N tokens, n documents, M labelled tokens per document (maximum of the batch or split), C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from lib.core.labels import IGNORED, LabelForm
from lib.core.settings import Probability
from lib.tasks import contract
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from torch import Tensor
    from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
    from transformers.trainer_utils import PredictionOutput


class Settings(TaskSettings):
    """Classification of every labelled word by the state of its first token."""

    labelled: ClassVar[bool] = True
    label_form: ClassVar[LabelForm] = "word"
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    kind: Literal["token_classification"]
    classifier_dropout: Probability = 0.1
    """Dropout before the projection."""


class Task(contract.Task):
    """Predict the class of every labelled token. The best epoch has the highest accuracy on validation."""

    best: ClassVar[str] = "accuracy"

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.token_classification import TokenClassification

        return TokenClassification.auto_model

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: head and names of the classes."""
        return self.parameters.model_dump(exclude={"kind"}) | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        from lib.tokens.batches import ClassificationCollator

        return ClassificationCollator(tokenizer.pad_token_id)

    def prediction_step(self, model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> tuple[None, Tensor, Tensor]:
        """Return, for each document, the logits [B, M, C] and labels [B, M] of its labelled tokens, in order.

        So the memory of a split grows with its labels, not its tokens. Documents with fewer labels are padded with the
        label -100.
        """
        import torch

        labels = inputs["labels"]
        with torch.no_grad():
            logits = model(**{name: value for name, value in inputs.items() if name != "labels"}).logits.float()
        is_labelled = labels.ne(IGNORED)
        most = max(1, int(is_labelled.sum(dim=1).max()))
        places = is_labelled.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        kept = logits.gather(1, places[:, :, None].expand(-1, -1, logits.shape[-1]))
        return None, kept, labels.gather(1, places)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return `classification_metrics` over the labelled tokens, and two further scores.

        `sequence_accuracy` is the share of documents whose labelled tokens are all right, among documents with labelled
        tokens; `loss` is the mean over labelled tokens, not over batches.
        """
        from scipy.special import log_softmax

        from lib.evaluation.metrics import classification_metrics

        logits, labels = prediction.predictions, prediction.label_ids
        is_labelled = labels != IGNORED  # [n, M]
        logarithms = log_softmax(logits[is_labelled].astype(np.float64), axis=-1)
        scores = classification_metrics(labels[is_labelled], np.exp(logarithms), self.labels)
        right = (logits.argmax(axis=-1) == labels) | ~is_labelled
        scores["sequence_accuracy"] = float(right.all(axis=1)[is_labelled.any(axis=1)].mean())
        scores["loss"] = float(-np.take_along_axis(logarithms, labels[is_labelled][:, None], axis=1).mean())
        return scores

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; `label` and `prediction` are lists over the labelled tokens.

        In a test split without labels, `prediction` is a list over the first tokens of all words.
        """
        import pandas as pd

        from lib.tokens.stored import has_labels

        labels, predicted = output.label_ids, output.predictions.argmax(axis=-1)
        is_labelled = labels != IGNORED
        known = [row[places].tolist() for row, places in zip(labels, is_labelled, strict=True)]
        columns = {
            "id": tokens["id"][:],
            "label": known if has_labels(tokens) else None,
            "prediction": [row[places].tolist() for row, places in zip(predicted, is_labelled, strict=True)],
        }
        return pd.DataFrame(columns | contract.groups(tokens))
