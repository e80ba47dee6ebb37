import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from datasets import Dataset
from transformers.trainer_utils import PredictionOutput

from lib.backbones.settings import BACKBONES
from lib.tasks.sequence_classification import Settings, Task


@pytest.mark.parametrize("groups", [None, [4, 5]])
def test_predictions_of_documents(groups):
    task = Task(Settings(kind="sequence_classification"), labels=["no", "yes"], seed=0)
    columns = {"id": ["a", "b"], "label": [1, 1]} | ({"group": groups} if groups else {})
    output = PredictionOutput(np.log(np.array([[0.25, 0.75], [0.5, 0.5]])), np.array([1, 1]), {})
    frame = task.predictions(Dataset(pa.table(columns)), output)
    probabilities = np.stack(frame.pop("probabilities"))
    assert probabilities == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    expected = {"id": ["a", "b"], "label": [1, 1], "prediction": [1, 0]}
    assert frame.to_dict("list") == expected | ({"group": groups} if groups else {})


def test_predictions_without_labels():
    labels = [0, 1] * 20
    frame = pd.DataFrame({"id": [f"{n}" for n in range(40)], "text": "the claim", "label": labels})
    frame["text_pair"] = [f"{'dull' if label else 'bright'} reply {n % 4}" for n, label in enumerate(labels)]
    settings = BACKBONES.parse({"kind": "tfidf", "C": 1.0, "class_weight": None, "max_df": 1.0})
    tfidf = BACKBONES.load("tfidf", "backbone").Backbone(settings, seed=0)
    task = Task(Settings(kind="sequence_classification"), labels=["no", "yes"], seed=0)
    documents = {"train": frame, "validation": frame, "test": frame.assign(label=None)}
    predictions, metrics = task.evaluate(tfidf, documents)
    assert metrics["eval_accuracy"] == 1
    assert not [name for name in metrics if name.startswith("test_")]
    test = predictions[predictions["split"] == "test"]
    assert test["prediction"].tolist() == labels
    assert test["label"].isna().all()
    assert predictions["label"].dtype == "Int64"


def test_backbone_of_the_page(repository):
    page = (repository / "docs/add_backbone.md").read_text(encoding="utf-8")
    written = {"__name__": "lib.backbones.majority"}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], written)
    backbone = written["Backbone"](written["Settings"](kind="majority"), seed=0)
    documents = pd.DataFrame({"id": list("abcd"), "text": ["a text"] * 4, "label": [0, 1, 1, 1]})
    task = Task(Settings(kind="sequence_classification"), labels=["no", "yes"], seed=0)
    predictions, metrics = task.evaluate(backbone, dict.fromkeys(("train", "validation", "test"), documents))
    assert predictions["prediction"].tolist() == [1] * 8
    assert (metrics["test_accuracy"], metrics["featureless_test"]) == (0.75, 0)
