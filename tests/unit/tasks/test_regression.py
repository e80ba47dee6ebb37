import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset
from transformers.trainer_utils import PredictionOutput

from lib.tasks.regression import Settings, Task


@pytest.fixture
def task():
    return Task(Settings(kind="regression"), labels=None, seed=0)


@pytest.mark.parametrize("groups", [None, [4, 5]])
def test_predictions_of_numbers(task, groups):
    columns = {"id": ["a", "b"], "label": [1.5, None]} | ({"group": groups} if groups else {})
    output = PredictionOutput(np.array([[0.25], [4.0]], np.float32), np.array([1.5, np.nan]), {})
    frame = task.predictions(Dataset(pa.table(columns)), output)
    assert frame["prediction"].tolist() == [0.25, 4.0]
    assert frame["label"].isna().tolist() == [False, True]
    assert ("group" in frame) == bool(groups)
