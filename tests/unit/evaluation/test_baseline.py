import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.core.errors import DataError
from lib.core.record import PREDICTIONS
from lib.core.settings.baseline import Baseline
from lib.evaluation.baseline import REPORT, run_baseline

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/baseline.py"
LABELS = ["bad", "good", "odd"]


def documents(labels, start=0):
    words = ["dull tiresome story", "bright lively story", "green cheese sings"]
    texts = [f"{words[label]} number {number % 4}" for number, label in enumerate(labels)]
    ids = [f"d{start + number}" for number in range(len(labels))]
    return pd.DataFrame({"id": ids, "text": texts, "label": labels})


@pytest.fixture
def splits(tmp_path):
    frames = {
        "train": documents([0, 1] * 20),
        "validation": documents([0, 1] * 4, start=100),
        "test": documents([0, 1, 1, 2], start=200),
    }
    paths = {}
    for split, frame in frames.items():
        paths[split] = tmp_path / f"{split}.parquet"
        frame.to_parquet(paths[split])
    return paths


def run(splits, folder, **settings):
    run_baseline(dataset="toy", **splits, label_names=LABELS, settings=Baseline(**settings), folder=folder)


def test_report_and_predictions(splits, tmp_path):
    run(splits, tmp_path / "out")
    report = json.loads((tmp_path / "out" / REPORT).read_text())
    predictions = pd.read_parquet(tmp_path / "out" / PREDICTIONS)

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([REPORT, PREDICTIONS])
    assert report["dataset"] == "toy"
    assert report["metrics"]["test_accuracy"] == 0.75  # the class that training never saw is missed
    assert report["metrics"]["eval_f1_macro"] == pytest.approx(2 / 3)  # two classes right, the third absent
    assert [(row["label"], row["support"]) for row in report["classes"]] == [("bad", 1), ("good", 2), ("odd", 1)]
    assert report["classes"][2]["recall"] == 0
    assert report["seconds"] > 0

    assert predictions["split"].tolist() == ["validation"] * 8 + ["test"] * 4
    assert predictions["id"].tolist() == [f"d{n}" for n in (*range(100, 108), *range(200, 204))]
    probabilities = np.stack(predictions["probabilities"])
    assert probabilities.shape == (12, 3)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(12))
    assert (probabilities[:, 2] == 0).all()
    assert (probabilities.argmax(axis=1) == predictions["prediction"]).all()


def test_settings_reach_the_vectorizer(splits, tmp_path):
    run(splits, tmp_path / "few", max_features=3)
    run(splits, tmp_path / "words", ngram_max=1)
    run(splits, tmp_path / "pairs", ngram_max=2)
    features = {
        name: json.loads((tmp_path / name / REPORT).read_text())["features"] for name in ("words", "pairs", "few")
    }
    assert features["few"] == 3
    assert features["words"] < features["pairs"]


def test_the_same_documents_give_the_same_predictions(splits, tmp_path):
    for name in ("one", "two"):
        run(splits, tmp_path / name)
    one, two = ((tmp_path / name / PREDICTIONS).read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            pd.DataFrame({"id": ["a", "b"], "text": ["one two", "three four"], "label": [0, 1]}),
            "no n-gram of 2 documents",
        ),
        (pd.DataFrame({"id": ["a", "b"], "text": ["", ""], "label": [0, 1]}), "no n-gram"),
        (documents([1] * 10), "only one class"),
        (documents([0, 1] * 5).assign(label=[0, 3] * 5), "expected at least one, labelled 0 to 2"),
        (documents([0, 1]).iloc[:0], "0 documents"),
        (documents([0, 1]).drop(columns="text"), "columns id, text and label"),
    ],
)
def test_unusable_documents_are_refused_and_nothing_is_left(splits, tmp_path, train, message):
    train.to_parquet(splits["train"])
    with pytest.raises(DataError, match=message):
        run(splits, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_or_truncated_file_is_named(splits, tmp_path):
    splits["test"].write_bytes(splits["test"].read_bytes()[:100])
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read"):
        run(splits, tmp_path / "out")
    splits["test"].unlink()
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read"):
        run(splits, tmp_path / "out")


def test_program(splits, tmp_path):
    files = [word for split, path in splits.items() for word in (f"--{split}", str(path))]
    options = ["--dataset", "toy", "--labels", *LABELS, "--out", str(tmp_path / "out"), "--max-features", "5"]
    runpy.run_path(str(PROGRAM))["main"]([*files, *options, "--min-df", "1", "--max-df", "0.95"])
    assert json.loads((tmp_path / "out" / REPORT).read_text())["features"] == 5


def test_program_refuses_a_setting_out_of_range(splits, tmp_path, capsys):
    files = [word for split, path in splits.items() for word in (f"--{split}", str(path))]
    options = ["--dataset", "toy", "--labels", *LABELS, "--out", str(tmp_path / "out"), "--max-df", "2"]
    with pytest.raises(SystemExit):
        runpy.run_path(str(PROGRAM))["main"]([*files, *options])
    assert "max_df" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
