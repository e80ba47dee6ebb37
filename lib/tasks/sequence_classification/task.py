"""Classification of whole documents: fine-tuning, and classifiers that need no training loop."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from datasets import Dataset
from scipy.special import softmax
from transformers import EvalPrediction, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from lib.backbones.contract import TextClassifier
from lib.data.classification import ClassificationCollator
from lib.evaluation.metrics import classification_metrics
from lib.tasks import contract


class Task(contract.Task):
    """Tell the class of a document. The best epoch has the highest macro-F1 on validation."""

    auto_model: ClassVar[str] = "AutoModelForSequenceClassification"
    best: ClassVar[str] = "f1_macro"

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: head and names of the classes."""
        return self.parameters.model_dump(exclude={"kind"}) | self.class_names()

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return ClassificationCollator(tokenizer.pad_token_id)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """See `lib.evaluation.metrics.classification_metrics`."""
        return classification_metrics(prediction.label_ids, softmax(prediction.predictions, axis=-1), self.labels)

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; `probabilities` has one number per class."""
        probabilities = softmax(output.predictions, axis=-1).astype(np.float32)
        groups = tokens["group"][:] if "group" in tokens.column_names else None
        return _predictions(tokens["id"][:], tokens["label"][:], probabilities, groups)

    def evaluate(self, classifier: TextClassifier, documents: Mapping[str, pd.DataFrame]) -> contract.Evaluation:
        """See `lib.tasks.contract.Task.evaluate`: fitted on training, scored on validation and test."""
        classifier.fit(documents["train"]["text"], documents["train"]["label"])
        frames: list[pd.DataFrame] = []
        metrics: dict[str, float] = {}
        for split, prefix in (("validation", "eval"), ("test", "test")):
            rows = documents[split]
            probabilities = classifier.class_probabilities(rows["text"], len(self.labels))
            scores = classification_metrics(rows["label"], probabilities, self.labels)
            metrics |= {f"{prefix}_{name}": score for name, score in scores.items()}
            frames.append(_predictions(rows["id"], rows["label"], probabilities, rows.get("group")).assign(split=split))
        return pd.concat(frames, ignore_index=True), metrics


def _predictions(
    ids: Sequence[str], labels: Sequence[int], probabilities: np.ndarray, groups: Sequence[int] | None
) -> pd.DataFrame:
    columns = {
        "id": list(ids),
        "label": list(labels),
        "prediction": probabilities.argmax(axis=-1),
        "probabilities": list(probabilities),
    }
    return pd.DataFrame(columns if groups is None else columns | {"group": list(groups)})
