import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset
from transformers.trainer_utils import PredictionOutput

from lib.tasks.sequence_classification.parameters import Parameters
from lib.tasks.sequence_classification.task import Task


@pytest.mark.parametrize("groups", [None, [4, 5]])
def test_predictions_are_one_row_per_document(groups):
    task = Task(Parameters(kind="sequence_classification"), labels=["no", "yes"], seed=0)
    columns = {"id": ["a", "b"], "label": [1, 1]} | ({"group": groups} if groups else {})
    output = PredictionOutput(np.log(np.array([[0.25, 0.75], [0.5, 0.5]])), np.array([1, 1]), {})
    frame = task.predictions(Dataset(pa.table(columns)), output)
    probabilities = np.stack(frame.pop("probabilities"))
    assert probabilities == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    expected = {"id": ["a", "b"], "label": [1, 1], "prediction": [1, 0]}
    assert frame.to_dict("list") == expected | ({"group": groups} if groups else {})
