"""Classification of whole documents: fine-tuning, and classifiers that need no training loop."""

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd

from lib.backbones.contract import TextClassifier
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.evaluation.metrics import classification_metrics
from lib.tasks import contract
from lib.tasks.document_classification import DocumentClassification, class_predictions


class Task(DocumentClassification):
    """Tell the class of a document."""

    auto_model: ClassVar[str] = SequenceClassification.auto_model

    def evaluate(self, classifier: TextClassifier, documents: Mapping[str, pd.DataFrame]) -> contract.Evaluation:
        """See `lib.tasks.contract.Task.evaluate`: fitted on training, scored on validation and test."""
        classifier.fit(_texts(documents["train"]), documents["train"]["label"])
        frames: list[pd.DataFrame] = []
        metrics: dict[str, float] = {}
        for split, prefix in (("validation", "eval"), ("test", "test")):
            rows = documents[split]
            probabilities = classifier.class_probabilities(_texts(rows), len(self.labels))
            if rows["label"].notna().all():
                scores = classification_metrics(rows["label"], probabilities, self.labels)
                metrics |= {f"{prefix}_{name}": score for name, score in scores.items()}
            found = class_predictions(rows["id"], rows["label"], probabilities, rows.get("group"))
            frames.append(found.assign(split=split))
        return pd.concat(frames, ignore_index=True), metrics


def _texts(documents: pd.DataFrame) -> pd.Series | pd.DataFrame:
    """Return the texts of documents, or both columns of pairs."""
    return documents[["text", "text_pair"]] if "text_pair" in documents else documents["text"]
