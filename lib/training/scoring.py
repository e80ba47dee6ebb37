"""Predictions and scores of a trained model on the validation and test splits."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from datasets import Dataset
from transformers.trainer_utils import PredictionOutput

from lib.core.errors import RunError
from lib.data.tokens import TokenDataset, load_tokens
from lib.training.predictor import Predictor


def load_split(folder: str, *, sort: bool = False) -> Dataset:
    """Return a tokenised split; `sort` puts the longest documents first, which reduces padding in evaluation."""
    tokens = load_tokens(folder)
    if sort:
        order = np.argsort(-np.asarray(tokens["length"]), kind="stable")
        tokens = tokens.select(order, keep_in_memory=True)
    return tokens


def predict_splits(predictor: Predictor, splits: Mapping[str, Dataset]) -> tuple[dict[str, float | None], pd.DataFrame]:
    """Return the scores (`eval_*` of validation, `test_*`) and the predictions, one row per document.

    Args:
        predictor: predictor with the model and its task.
        splits: `validation` and `test`.

    Raises:
        RunError: a prediction is NaN or inf.
    """
    metrics: dict[str, float | None] = {}
    frames = []
    for split, prefix in (("validation", "eval"), ("test", "test")):
        output = predictor.predict(TokenDataset(splits[split]), prefix)
        _require_finite(output, splits[split], split)
        frames.append(predictor.task.predictions(splits[split], output).assign(split=split))
        metrics |= output.metrics
    return metrics, pd.concat(frames, ignore_index=True)


def _require_finite(output: PredictionOutput, documents: Dataset, split: str) -> None:
    """Refuse predictions that are NaN or inf, whose maximum would still be a class."""
    arrays = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)
    for array in arrays:
        rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
        if len(rows):
            raise RunError(
                f"{split}: the scores of {len(rows)} of {len(array)} documents are NaN or inf, the first of them of "
                f"{documents[int(rows[0])]['id']}. Expected finite ones; train with precision fp32 or bf16, or with a "
                "lower learning rate."
            )
