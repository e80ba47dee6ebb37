"""Regression for whole documents: fine-tuning with the squared error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from transformers import EvalPrediction, PreTrainedTokenizerBase
from transformers.trainer_utils import PredictionOutput

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.data.classification import RegressionCollator
from lib.evaluation.metrics import regression_metrics
from lib.tasks import contract
from lib.tasks.classifier import ClassifierSettings

if TYPE_CHECKING:
    from datasets import Dataset

NAME = "number"
"""Name of the only output of a model."""


class Task(contract.Task):
    """Predict a number. The best epoch has the highest Pearson correlation with the labels on validation."""

    auto_model: ClassVar[str] = SequenceClassification.auto_model
    best: ClassVar[str] = "pearson"

    def model_options(self) -> dict[str, Any]:
        """See `lib.tasks.contract.Task.model_options`: head, with one output."""
        fields = ClassifierSettings.model_fields.keys() - {"kind"}
        names = {"id2label": {0: NAME}, "label2id": {NAME: 0}}
        return self.parameters.model_dump(include=fields) | names | {"problem_type": "regression"}

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return RegressionCollator(tokenizer.pad_token_id)

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """See `lib.evaluation.metrics.regression_metrics`."""
        return regression_metrics(prediction.label_ids, prediction.predictions[:, 0])

    def predictions(self, tokens: Dataset, output: PredictionOutput) -> pd.DataFrame:
        """See `lib.tasks.contract.Task.predictions`; labels and predictions are numbers."""
        columns = {
            "id": tokens["id"][:],
            "label": np.array(tokens["label"][:], dtype=np.float64),
            "prediction": output.predictions[:, 0].astype(np.float64),
        }
        groups = {"group": tokens["group"][:]} if "group" in tokens.column_names else {}
        return pd.DataFrame(columns | groups)
