"""Detection of spans: from the scores of tokens to characters, a threshold, scores and predictions."""

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset
from scipy.special import logit
from torch.nn.functional import cross_entropy
from transformers import AutoModelForTokenClassification, EvalPrediction
from transformers.trainer_utils import PredictionOutput

from lib.backbones.encoder.configuration import EncoderConfig
from studies.decoders.backbones.span_finder import Pieces
from studies.decoders.tasks.span_detection.settings import Settings
from studies.decoders.tasks.span_detection.task import Task

NONE = -100
# Two documents. The first one has the tokens [0, 3), [4, 7), [8, 10) in two windows; the shorter windows come last.
ROWS = [
    {"id": "b", "starts": [0, 2, 5], "ends": [2, 5, 6], "labels": [0, 1, 1], "spans": [[2, 6]], "characters": 6},
    {"id": "a", "starts": [0, 0, 4], "ends": [0, 3, 7], "labels": [NONE, 0, 1], "spans": [[4, 9]], "characters": 11},
    {"id": "a", "starts": [4, 8], "ends": [7, 10], "labels": [1, 1], "spans": [[4, 9]], "characters": 11},
]
PROBABILITIES = [[0.1, 0.4, 0.9], [0.5, 0.2, 0.8], [0.4, 0.3]]
CHARACTERS = {"a": [0.2] * 3 + [0.2] + [0.6] * 3 + [0.3] * 3 + [0], "b": [0.1] * 2 + [0.4] * 3 + [0.9]}


@pytest.fixture
def make():
    def task(**options):
        parameters = Settings(kind="span_detection", **options)
        return Task(parameters, labels=["outside", "inside"], seed=0)

    return task


@pytest.fixture
def tokens():
    return Dataset.from_list([{**row, "input_ids": row["starts"], "length": len(row["starts"])} for row in ROWS])


def padded(rows, filler):
    return np.array([row + [filler] * (3 - len(row)) for row in rows], dtype=np.float32)


def prediction():
    margins = padded([[logit(value) for value in row] for row in PROBABILITIES], NONE)
    return margins, padded([row["labels"] for row in ROWS], NONE).astype(int)


def scored(task, tokens, split="validation"):
    task.begin(split, tokens)
    return task.metrics(EvalPrediction(*prediction()))


def test_scores_at_the_best_threshold(make, tokens):
    """By hand: from 0.3 on, the 9 characters inside are found and one other; from 0.4 on, 7 of them and no other."""
    scores = scored(make(), tokens)
    assert scores["threshold"] == 0.3
    assert (scores["precision"], scores["recall"]) == (9 / 10, 1)
    assert scores["f1"] == pytest.approx(18 / 19)
    margins, labels = (torch.tensor(values).flatten() for values in prediction())
    logits = torch.stack([torch.zeros_like(margins), margins], dim=1)
    assert scores["loss"] == pytest.approx(float(cross_entropy(logits, labels)), abs=1e-6)


def test_threshold_of_the_test(make, tokens):
    task = make()
    scored(task, tokens)
    every = Dataset.from_list([{**row, "spans": [[0, row["characters"]]]} for row in tokens])
    scores = scored(task, every, "test")
    assert "threshold" not in scores
    assert scores["recall"] == pytest.approx(10 / 17)  # 0.1 would find all but the last character


@pytest.mark.parametrize(("threshold", "found"), [(0.85, 1), ("balance", 10)])
def test_thresholds_given_or_balanced(make, tokens, threshold, found):
    """9 characters lie in spans; 10 are found from 0.3 on, and 7 from 0.4 on."""
    task = make(threshold=threshold)
    scored(task, tokens)
    frame = task.predictions(tokens, PredictionOutput(*prediction(), metrics={}))
    assert frame[["true_positives", "false_positives"]].to_numpy().sum() == found


def test_predictions_of_spans(make, tokens, tmp_path):
    task = make()
    scores = scored(task, tokens)
    frame = task.predictions(tokens, PredictionOutput(*prediction(), metrics={}))
    frame.to_parquet(tmp_path / "predictions.parquet")
    frame = pd.read_parquet(tmp_path / "predictions.parquet").set_index("id")
    assert list(frame.index) == ["b", "a"]
    for identity, values in CHARACTERS.items():
        assert frame.loc[identity, "probabilities"].tolist() == pytest.approx(values, abs=1e-3)
    spans = frame[["label", "prediction"]].map(lambda spans: [span.tolist() for span in spans])
    assert spans.loc["a"].tolist() == [[[4, 9]], [[4, 10]]]
    assert spans.loc["b"].tolist() == [[[2, 6]], [[2, 6]]]
    counts = frame[["true_positives", "false_positives", "false_negatives"]]
    assert counts.loc[["a", "b"]].to_numpy().tolist() == [[5, 1, 0], [4, 0, 0]]
    again = frame["probabilities"].map(lambda values: (values.astype(float) >= scores["threshold"]).sum())
    assert again.tolist() == [4, 6]


def test_groups_of_spans(make, tokens):
    tokens = tokens.add_column("group", [7, 5, 5])
    task = make()
    scored(task, tokens)
    frame = task.predictions(tokens, PredictionOutput(*prediction(), metrics={}))
    assert dict(zip(frame["id"], frame["group"], strict=True)) == {"a": 5, "b": 7}


def test_margins_of_a_batch(make):
    task = make(classifier_dropout=0.0)
    config = EncoderConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
                           **task.model_options())  # fmt: skip
    assert (config.num_labels, hasattr(config, "threshold")) == (2, False)
    model = AutoModelForTokenClassification.from_config(config).eval()
    ids, labels = torch.full((2, 4), 5), torch.tensor([[NONE, 1, 0, NONE], [NONE] * 4])
    loss, margins, kept = task.prediction_step(model, {"input_ids": ids, "labels": labels})
    assert (loss, kept.tolist()) == (None, labels.tolist())
    torch.testing.assert_close(margins.sigmoid(), model(ids).logits.softmax(dim=-1)[..., 1])
    assert not margins.requires_grad


class Halves:
    """Finds the first half of each text, and remembers what it was fitted on."""

    def fit(self, texts, inside):
        self.fitted = [(text, marks.tolist()) for text, marks in zip(texts, inside, strict=True)]

    def pieces(self, texts):
        middles = [len(text) // 2 for text in texts]
        return [
            Pieces([0, middle], [middle, len(text)], [0.7, 0.2]) for middle, text in zip(middles, texts, strict=True)
        ]


def test_backbone_that_needs_no_training(make):
    def documents(split):
        spans = [np.array([[0, 2]]), np.array([])]
        return pd.DataFrame({"id": [f"{split}-0", f"{split}-1"], "text": ["abcd", "efgh"], "label": spans})

    finder = Halves()
    frame, metrics = make().evaluate(finder, {split: documents(split) for split in ("train", "validation", "test")})
    assert finder.fitted == [("abcd", [True, True, False, False]), ("efgh", [False] * 4)]
    assert frame["split"].tolist() == ["validation"] * 2 + ["test"] * 2
    assert frame["prediction"].tolist() == [[(0, 2)]] * 4
    assert metrics == {
        f"{prefix}_{name}": pytest.approx(value)
        for prefix in ("eval", "test")
        for name, value in (("precision", 1 / 2), ("recall", 1), ("f1", 2 / 3))
    } | {"eval_threshold": 0.5}
