"""Regression for whole documents: fine-tuning with the squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from lib.core.labels import LabelForm
from lib.preparing.settings.document_form import Texts
from lib.tasks import contract
from lib.tasks.document_classification import ClassifierSettings, DocumentClassification

if TYPE_CHECKING:
    import pandas as pd
    from datasets import Dataset
    from transformers import EvalPrediction
    from transformers.trainer_utils import PredictionOutput


NAME = "number"
"""Name of the only output of a model."""


class Settings(ClassifierSettings):
    """Regression: predicts a number for a document or a pair of texts, such as the similarity of the pair."""

    label_form: ClassVar[LabelForm] = "number"
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["regression"]


class Task(DocumentClassification):
    """Predict a number. The best epoch has the highest Pearson correlation with the labels on validation."""

    best: ClassVar[str] = "pearson"

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.sequence_classification import SequenceClassification

        return SequenceClassification.auto_model

    def class_names(self) -> dict[str, Any]:
        """Return the fields of a model's configuration with the name of its only output."""
        return {"id2label": {0: NAME}, "label2id": {NAME: 0}, "problem_type": "regression"}

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """See `lib.evaluation.metrics.regression_metrics`."""
        from lib.evaluation.metrics import regression_metrics

        return regression_metrics(prediction.label_ids, prediction.predictions[:, 0])

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; labels and predictions are numbers."""
        import pandas as pd

        columns = {
            "id": tokens["id"][:],
            "label": np.array(tokens["label"][:], dtype=np.float64),
            "prediction": output.predictions[:, 0].astype(np.float64),
        }
        return pd.DataFrame(columns | contract.groups(tokens))
