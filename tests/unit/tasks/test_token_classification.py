"""Classification of words: what is kept of a batch, scores and predictions by hand-made cases."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForTokenClassification, EvalPrediction
from transformers.trainer_utils import PredictionOutput

from lib.backbones.encoder.configuration import EncoderConfig
from lib.tasks.token_classification import Settings, Task

NAMES = ["noun", "verb", "other"]
NONE = -100


@pytest.fixture
def task():
    return Task(Settings(kind="token_classification"), labels=NAMES, seed=0)


def logits(*classes):
    """Return logits of the probability 0.8 for these classes, 0.1 for others; -100 = a place that the Trainer pads."""
    by_class = {number: np.log([0.1 + 0.7 * (c == number) for c in range(3)]) for number in range(3)}
    rows = [by_class.get(number, [NONE] * 3) for number in classes]
    return np.array(rows, dtype=np.float32)


# Three documents: all right; one of two wrong; none labelled.
LABELS = np.array([[0, 1, 2], [1, 1, NONE], [NONE, NONE, NONE]])
LOGITS = np.stack([logits(0, 1, 2), logits(1, 0, NONE), logits(2, 2, 2)])


def test_scores_of_labelled_tokens(task):
    scores = task.metrics(EvalPrediction(LOGITS, LABELS))
    assert scores["accuracy"] == pytest.approx(4 / 5)
    assert scores["sequence_accuracy"] == pytest.approx(1 / 2)
    assert scores["loss"] == pytest.approx(-(4 * np.log(0.8) + np.log(0.1)) / 5, rel=1e-6)
    assert scores["recall_class_verb"] == pytest.approx(2 / 3)
    assert scores["mean_confidence"] == pytest.approx(0.8, rel=1e-6)
    assert {type(score) for score in scores.values()} == {float}


@pytest.mark.parametrize("groups", [None, [4, 5, 6]])
def test_predictions_of_labelled_tokens(task, groups):
    columns = {"id": ["a", "b", "c"], "labels": [[0]] * 3} | ({"group": groups} if groups else {})
    frame = task.predictions(Dataset(pa.table(columns)), PredictionOutput(LOGITS, LABELS, {}))
    expected = {"id": ["a", "b", "c"], "label": [[0, 1, 2], [1, 1], []], "prediction": [[0, 1, 2], [1, 0], []]}
    assert frame.to_dict("list") == expected | ({"group": groups} if groups else {})


def test_kept_logits_of_labelled_tokens(task):
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = EncoderConfig(vocab_size=20, **sizes, **task.model_options())
    model = AutoModelForTokenClassification.from_config(config).eval()
    assert (model.config.id2label, model.config.classifier_dropout) == (dict(enumerate(NAMES)), 0.1)
    labels = torch.tensor([[NONE, 2, NONE, 0, 1, NONE], [NONE] * 6, [1, NONE, NONE, NONE, NONE, 2]])
    inputs = {"input_ids": torch.randint(5, 20, (3, 6)), "attention_mask": torch.ones(3, 6, dtype=torch.long)}
    loss, kept, kept_labels = task.prediction_step(model, inputs | {"labels": labels})
    assert loss is None
    assert kept_labels.tolist() == [[2, 0, 1], [NONE] * 3, [1, 2, NONE]]
    assert kept.shape == (3, 3, 3)
    with torch.no_grad():
        whole = model(**inputs).logits
    torch.testing.assert_close(kept[kept_labels != NONE], whole[labels != NONE])
    assert not kept.requires_grad


def test_logits_without_labels(task):
    config = EncoderConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
                           **task.model_options())  # fmt: skip
    model = AutoModelForTokenClassification.from_config(config)
    ids = torch.full((2, 4), 5)
    _, kept, labels = task.prediction_step(model, {"input_ids": ids, "labels": torch.full((2, 4), NONE)})
    assert (kept.shape, labels.tolist()) == ((2, 1, 3), [[NONE], [NONE]])
