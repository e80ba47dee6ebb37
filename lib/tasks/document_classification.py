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

        return ClassificationCollator(tokenizer.pad_token_id, numbers=self.parameters.numbers)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """See `lib.evaluation.metrics.classification_metrics`."""
        from scipy.special import softmax

        from lib.evaluation.metrics import classification_metrics

        return classification_metrics(prediction.label_ids, softmax(prediction.predictions, axis=-1), self.labels)

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; `probabilities` has one number per class."""
        from scipy.special import softmax

        probabilities = softmax(output.predictions, axis=-1).astype(np.float32)
        return class_predictions(tokens["id"][:], tokens["label"][:], probabilities, contract.groups(tokens))

    def read(self, classifier: TextClassifier, documents: pd.DataFrame) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.read`."""
        probabilities = classifier.class_probabilities(_texts(documents), len(self.labels))
        groups = {"group": documents["group"]} if "group" in documents else {}
        return class_predictions(documents["id"], documents["label"], probabilities, groups)

    def evaluate(self, classifier: TextClassifier, documents: Mapping[str, pd.DataFrame]) -> contract.Evaluation:
        """See `lib.tasks.contract.Task.evaluate`: fitted on training, scored on validation, and on test with labels."""
        import pandas as pd

        from lib.evaluation.metrics import classification_metrics

        classifier.fit(_texts(documents["train"]), documents["train"]["label"])
        frames: list[pd.DataFrame] = []
        metrics = {"featureless_train": classifier.featureless}
        for split, prefix in (("validation", "eval"), ("test", "test")):
            found = self.read(classifier, documents[split])
            metrics[f"featureless_{split}"] = classifier.featureless
            if found["label"].notna().all():
                probabilities = np.stack(found["probabilities"])
                scores = classification_metrics(found["label"].to_numpy(), probabilities, self.labels)
                metrics |= {f"{prefix}_{name}": score for name, score in scores.items()}
            frames.append(found.assign(split=split))
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
