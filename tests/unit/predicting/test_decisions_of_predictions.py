"""Decisions that `predict` chooses on validation, and the passages that it names."""

import json
import runpy

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import minimize_scalar
from sklearn.metrics import precision_score, recall_score

from lib.core.errors import ProjectError
from lib.evaluation.decisions import at_temperature, temperature
from lib.preparing.parts import part_schema
from lib.study.run import RunSettings
from lib.training.evaluate import evaluate

WORDS = [["bright", "lively", "warm"], ["dull", "grim", "cold"]]


def documents(count, seed):
    """Return texts of three words; each word belongs to the text's class with a chance of 70 %."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=count)
    texts = [
        " ".join(WORDS[label if rng.random() < 0.7 else 1 - label][rng.integers(3)] for _ in range(3))
        for label in labels
    ]
    return pd.DataFrame({"id": range(count), "text": texts, "label": labels}).astype({"id": str})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    data = {split: str(folder / f"{split}.parquet") for split in ("train", "validation", "test")}
    for seed, path in enumerate(data.values()):
        documents(400, seed).to_parquet(path)
    task = {"kind": "sequence_classification"}
    backbone = {"kind": "tfidf", "ngram_max": 1, "C": 100.0, "class_weight": None}
    values = {"stage": "score", "model": "tfidf", "dataset": "toy", "seed": 0, "labels": ["good", "bad"], "data": data}
    evaluate(RunSettings.model_validate(values | {"task": task, "backbone": backbone}), folder / "run")
    return folder


@pytest.fixture(scope="module")
def sets(run):
    """A run on the same texts, which have the class of each of their words, mostly, and a third that none has."""
    (run / "sets").mkdir()
    data = {split: str(run / "sets" / f"{split}.parquet") for split in ("train", "validation", "test")}
    for seed, path in enumerate(data.values()):
        frame, rng = documents(300, seed), np.random.default_rng(seed)
        has = [
            [any(each in text for each in words) == (rng.random() < 0.8) for words in WORDS] for text in frame["text"]
        ]
        frame["label"] = [np.flatnonzero(row).tolist() for row in has]
        pq.write_table(pa.Table.from_pandas(frame, part_schema("set"), preserve_index=False), path)
    values = {"stage": "score", "model": "tfidf", "dataset": "toy", "seed": 0, "labels": NAMES, "data": data}
    values["task"] = {"kind": "multi_label_classification", "threshold": "per_class"}
    values["backbone"] = {"kind": "tfidf", "ngram_max": 1, "C": 100.0, "class_weight": None}
    evaluate(RunSettings.model_validate(values), run / "sets" / "run")
    return pd.read_parquet(run / "sets/run/predictions.parquet").groupby("split")


NAMES = ["good", "bad", "labels"]


def test_sets_of_classes(sets, answers):
    """The record itself; thresholds and temperature of each class of each document as one of two."""
    columns = [f"probability_{name}" for name in NAMES]
    for split, expected in sets:
        found = answers(split, model="sets/run")
        assert found.columns.tolist() == ["id", "labels", *sorted(columns)]
        assert found[columns].to_numpy(np.float32).tolist() == np.stack(expected["probabilities"]).tolist()
        named = [[NAMES[number] for number in row] for row in expected["prediction"]]
        assert [json.loads(row) for row in found["labels"]] == named
    held_out = sets.get_group("validation")
    yes, true = np.stack(held_out["probabilities"]).astype(float), np.zeros((300, 3), bool)
    for row, labels in zip(true, held_out["label"], strict=True):
        row[labels] = True
    found = answers("validation", "--thresholds", "{bad: {recall: 0.95}}", model="sets/run")["labels"].map(json.loads)
    least = np.quantile(yes[true[:, 1], 1], 0.05, method="lower")
    assert [each in row for row in found for each in ["bad"]] == (yes[:, 1] >= least).tolist()
    odds = np.log(np.maximum(yes, 1e-38)) - np.log1p(-yes)
    best = minimize_scalar(lambda t: np.logaddexp(0, np.where(true, -odds, odds) / t).sum(), bounds=(0.01, 100))
    found = answers("validation", "--calibrated", model="sets/run")[columns].to_numpy()
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-odds / best.x)), atol=1e-4)
    with pytest.raises(ProjectError, match="abstain"):
        answers("test", "--abstain", "0.1", model="sets/run")


@pytest.fixture
def answers(run, tmp_path):
    def predict(split, *arguments, model="run"):
        source = (run / model).parent / f"{split}.parquet"
        given = ["--model", run / model, "--input", source, "--out", tmp_path / "out.csv", *arguments]
        runpy.run_path("scripts/tools/predict.py")["main"]([*map(str, given), "--id", "id"])
        return pd.read_csv(tmp_path / "out.csv", float_precision="round_trip")

    return predict


def test_temperature_of_validation(run, answers):
    held_out = pd.read_parquet(run / "run/predictions.parquet").query("split == 'validation'")
    probabilities = np.stack(held_out["probabilities"])
    warmth = temperature(probabilities, held_out["label"])
    assert warmth > 1.1  # so weak a penalty is too sure
    expected = at_temperature(probabilities, warmth)
    assert answers("validation", "--calibrated")[["good", "bad"]].to_numpy().tolist() == expected.tolist()


def test_thresholds_and_abstention_on_validation(run, answers):
    truth = pd.read_parquet(run / "validation.parquet")["label"] == 1
    found = answers("validation", "--thresholds", "{bad: {recall: 0.95}}")["label"] == "bad"
    assert recall_score(truth, found) >= 0.95 > recall_score(truth, answers("validation")["label"] == "bad")
    found = answers("validation", "--thresholds", "{bad: {precision: 0.9}}")["label"] == "bad"
    assert precision_score(truth, found) >= 0.9
    found = answers("validation", "--abstain", "0.1", "--certainty", "0")
    wrong = (found["label"] == "bad") != truth
    assert 0 < wrong[found["decided"]].mean() <= 0.1 < wrong.mean()
    assert answers("test", "--abstain", "0.25").columns.tolist() == ["id", "label", "decided", "bad", "good"]


def test_passages_of_terms(run, answers):
    texts = pd.read_parquet(run / "test.parquet")["text"]
    found = answers("test", "--passages", "2")
    for text, label, cell in zip(texts, found["label"], found["passages"], strict=True):
        for passage in json.loads(cell):
            (start, end), *_ = passage["spans"]
            assert passage["text"] == text[start:end]
            assert passage["text"] in WORDS[label == "bad"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--thresholds", "{worse: f1}"], "worse.*good, bad"),
        (["--thresholds", "{bad: {precision: 1.5}}"], "thresholds"),
        (["--thresholds", "{bad: {precision: 0.99}}"], "thresholds.bad: no threshold"),
        (["--abstain", "0.0001"], "no confidence"),
    ],
)
def test_aims_out_of_reach(arguments, message, answers, tmp_path):
    with pytest.raises(ProjectError, match=f"(?s){message}"):
        answers("test", *arguments)
    assert not (tmp_path / "out.csv").exists()


def test_model_without_validation(run, answers):
    (run / "run/model").rename(run / "copy")
    (run / "copy/validation.safetensors").unlink()
    with pytest.raises(ProjectError, match=r"no validation\.safetensors"):
        answers("test", "--calibrated", model="copy")
