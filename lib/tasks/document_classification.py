"""Classification of whole documents, common to all ways to compute class scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from lib.core.settings import PositiveInt, Probability
from lib.tasks import contract
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from transformers import EvalPrediction, PreTrainedTokenizerBase
    from transformers.trainer_utils import PredictionOutput

    from lib.backbones.contract import TextClassifier


class ClassifierSettings(TaskSettings):
    """Settings of the head that maps hidden states to class scores."""

    labelled: ClassVar[bool] = True
    head: ClassVar[str | None] = "sequence_classification"
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    classifier_pooling: Literal["cls", "mean", "max", "min", "mean_step"] = "mean"
    """Aggregation of the real tokens' hidden states into one vector."""
    pooling_step: PositiveInt = 1
    """Stride of `mean_step`, in tokens."""
    classifier_head: Literal["bert", "roberta", "none"] = "bert"
    """`bert`: dense, tanh, dropout; `roberta`: dropout before that too; `none`: dropout only."""
    classifier_dropout: Probability = 0.1
    """Dropout before the last projection."""


class DocumentClassification(contract.Task):
    """Base of document classification tasks. The best epoch has the highest macro-F1 on validation."""

    best: ClassVar[str] = "f1_macro"

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: head and names of the classes."""
        fields = ClassifierSettings.model_fields.keys() - {"kind"}
        return self.parameters.model_dump(include=fields) | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        from lib.tokens.batches import ClassificationCollator

        return ClassificationCollator(tokenizer.pad_token_id, self.parameters.label_form, classes=len(self.labels))

    def begin(self, split: str, tokens: Dataset) -> None:
        """See `lib.tasks.contract.Task.begin`."""
        self._split = split

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probabilities of classes [n, C] of a model's scores [n, C]."""
        from scipy.special import softmax

        return softmax(scores, axis=-1)

    def scores(self, split: str, labels: Sequence[int] | np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
        """Return the scores of a split, see `lib.evaluation.metrics.classification_metrics`.

        Args:
            split: name of the split; validation comes first.
            labels: classes of the documents [n].
            probabilities: of the classes [n, C].
        """
        from lib.evaluation.metrics import classification_metrics

        return classification_metrics(labels, probabilities, self.labels)

    def frame(
        self, ids: Sequence[str], labels: Sequence[Any], probabilities: np.ndarray, groups: Mapping[str, Sequence[Any]]
    ) -> pd.DataFrame:
        """Return the predictions, see `class_predictions`."""
        return class_predictions(ids, labels, probabilities, groups)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """See `scores`."""
        return self.scores(self._split, prediction.label_ids, self.probabilities(prediction.predictions))

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; `probabilities` has one number per class."""
        probabilities = self.probabilities(output.predictions).astype(np.float32)
        return self.frame(tokens["id"][:], tokens["label"][:], probabilities, contract.groups(tokens))

    def read(self, classifier: TextClassifier, documents: pd.DataFrame) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.read`."""
        return self._framed(documents, classifier.class_probabilities(_texts(documents), len(self.labels)))

    def _framed(self, documents: pd.DataFrame, probabilities: np.ndarray) -> pd.DataFrame:
        groups = {"group": documents["group"]} if "group" in documents else {}
        return self.frame(documents["id"], documents["label"], probabilities, groups)

    def evaluate(self, classifier: TextClassifier, documents: Mapping[str, pd.DataFrame]) -> contract.Evaluation:
        """See `lib.tasks.contract.Task.evaluate`: fitted on training, scored on validation, and on test with labels."""
        import pandas as pd

        classifier.fit(_texts(documents["train"]), documents["train"]["label"])
        frames: list[pd.DataFrame] = []
        metrics = {"featureless_train": classifier.featureless}
        for split, prefix in (("validation", "eval"), ("test", "test")):
            rows = documents[split]
            probabilities = classifier.class_probabilities(_texts(rows), len(self.labels))
            metrics[f"featureless_{split}"] = classifier.featureless
            if rows["label"].notna().all():
                scores = self.scores(split, rows["label"].to_numpy(), probabilities)
                metrics |= {f"{prefix}_{name}": score for name, score in scores.items()}
            frames.append(self._framed(rows, probabilities).assign(split=split))
        return pd.concat(frames, ignore_index=True), metrics


def _texts(documents: pd.DataFrame) -> pd.Series | pd.DataFrame:
    """Return the texts of documents, or both columns of pairs."""
    return documents[["text", "text_pair"]] if "text_pair" in documents else documents["text"]


def class_predictions(
    ids: Sequence[str], labels: Sequence[int | None], probabilities: np.ndarray, groups: Mapping[str, Sequence[Any]]
) -> pd.DataFrame:
    """Return one row per document: `id`, `label`, `prediction`, `probabilities`, and `group` if there are groups.

    Args:
        ids: ids of the documents [n].
        labels: classes of the documents [n]; all missing if unknown.
        probabilities: probabilities of the classes [n, C].
        groups: `group` of the documents [n], if there are groups.
    """
    import pandas as pd

    known = pd.Series(list(labels))
    columns = {
        "id": list(ids),
        "label": known.astype("Int64") if known.isna().any() else known,
        "prediction": probabilities.argmax(axis=-1),
        "probabilities": list(probabilities),
    }
    return pd.DataFrame(columns | {name: list(values) for name, values in groups.items()})
