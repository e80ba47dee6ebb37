import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset
from transformers import EvalPrediction
from transformers.trainer_utils import PredictionOutput

from lib.backbones.encoder.configuration import EncoderConfig
from lib.tasks.regression import Settings, Task


@pytest.fixture
def task():
    return Task(Settings(kind="regression"), labels=None, seed=0)


@pytest.mark.parametrize("groups", [None, [4, 5]])
def test_predictions_are_numbers_one_row_per_document(task, groups):
    columns = {"id": ["a", "b"], "label": [1.5, None]} | ({"group": groups} if groups else {})
    output = PredictionOutput(np.array([[0.25], [4.0]], np.float32), np.array([1.5, np.nan]), {})
    frame = task.predictions(Dataset(pa.table(columns)), output)
    assert frame["prediction"].tolist() == [0.25, 4.0]
    assert frame["label"].isna().tolist() == [False, True]
    assert ("group" in frame) == bool(groups)


def test_the_best_epoch_is_chosen_by_a_metric_that_there_is(task):
    found = task.metrics(EvalPrediction(np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0])))
    assert found[task.best] == pytest.approx(np.corrcoef([1, 2, 4], [1, 2, 3])[0, 1])


def test_a_model_has_one_output(task):
    config = EncoderConfig(hidden_size=16, num_attention_heads=2, num_hidden_layers=1, **task.model_options())
    assert task.model(config).head[-1].out_features == 1
