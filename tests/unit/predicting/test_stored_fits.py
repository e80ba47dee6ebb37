"""Fits of classifiers of texts, stored without code: the same answers, from numpy and scikit-learn alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from lib.core.errors import ConfigError, ProjectError
from lib.predicting.predict import predict
from lib.study.run import RunSettings
from lib.training.evaluate import evaluate

ROOT = Path(__file__).resolve().parents[3]
LABELS = ["id", "=dull"]  # the name of another column, and what a spreadsheet takes for a formula
WORDS = ["bright lively story", "dull tiresome story"]


def documents(count, *, paired):
    rows = [
        {"id": f"d{number}", "text": f"{WORDS[number % 2]} number {number % 5}", "label": number % 2}
        | ({"text_pair": WORDS[number % 3 % 2]} if paired else {})
        for number in range(count)
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def fitted(tmp_path):
    def fit(backbone, *, paired=False):
        data = {}
        for split, count in (("train", 60), ("validation", 20), ("test", 24)):
            data[split] = str(tmp_path / f"{split}.parquet")
            documents(count, paired=paired).to_parquet(data[split])
        (tmp_path / "summary.json").write_text(json.dumps({"text": "review", "text_pair": "answer", "remove": "<br>"}))
        task = {"kind": "pair_classification" if paired else "sequence_classification"}
        values = {"stage": "score", "model": "tfidf", "dataset": "toy", "seed": 0, "labels": LABELS, "data": data}
        evaluate(RunSettings.model_validate(values | {"task": task, "backbone": backbone}), tmp_path / "run")
        return tmp_path / "run"

    return fit


@pytest.mark.parametrize(
    ("backbone", "paired"),
    [
        ({"ngram_max": 1}, False),
        ({"unit": "characters", "ngram_max": 3, "part": [0.0, 0.5]}, False),
        ({"C": 1.0, "class_weight": "balanced"}, True),
    ],
    ids=["words", "characters of a part", "pairs"],
)
def test_answers_of_a_stored_fit(backbone, paired, fitted, tmp_path):
    run = fitted({"kind": "tfidf"} | backbone, paired=paired)
    source = documents(24, paired=paired).rename(columns={"text": "review", "text_pair": "answer"})
    source["review"] = "<br>" + source["review"]
    source.to_csv(tmp_path / "new.csv", index=False)
    predict(run, tmp_path / "new.csv", tmp_path / "out.csv", id="id")
    found = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip")
    expected = pd.read_parquet(run / "predictions.parquet").query("split == 'test'")
    assert found.columns.tolist() == ["id", "label", "probability_=dull", "probability_id"]
    assert found["label"].tolist() == [["id", "'=dull"][number] for number in expected["prediction"]]
    assert found["probability_id"].tolist() == np.stack(expected["probabilities"])[:, 0].tolist()


def numbers(folder, change):
    path = folder / "fit.safetensors"
    found = load_file(path)
    change(found)
    save_file(found, path)


DAMAGES = {
    "NaN": lambda folder: numbers(folder, lambda found: found["coef"].fill(np.nan)),
    "no rarity": lambda folder: numbers(folder, lambda found: found.pop("idf")),
    "fewer columns": lambda folder: numbers(folder, lambda found: found.update(coef=found["coef"][:, 1:])),
    "a third class": lambda folder: numbers(folder, lambda found: found.update(classes=np.arange(3))),
    "no terms": lambda folder: (folder / "fit.json").write_text("{}"),
    "half a file": lambda folder: (folder / "fit.safetensors").write_bytes(b"half"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_fit(name, fitted, tmp_path):
    model = fitted({"kind": "tfidf", "C": 1.0, "class_weight": None}) / "model"
    copy = model.rename(tmp_path / "copy")
    DAMAGES[name](copy)
    documents(3, paired=False).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(ProjectError, match=r"copy/fit\.(json|safetensors)"):
        predict(copy, tmp_path / "new.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_tokens_of_a_model_of_texts(fitted, tmp_path):
    documents(3, paired=False).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(ConfigError, match="max_tokens = 8"):
        predict(fitted({"kind": "tfidf"}), tmp_path / "new.csv", tmp_path / "out.csv", max_tokens=8)


def test_answers_without_torch(fitted, tmp_path):
    run = fitted({"kind": "tfidf"})
    documents(24, paired=False).to_csv(tmp_path / "new.csv", index=False)
    program = (
        "import runpy, sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers', 'tokenizers', 'datasets', 'accelerate'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    given = ["scripts/tools/predict.py", "--model", run, "--input", tmp_path / "new.csv", "--out", tmp_path / "out.csv"]
    subprocess.run([sys.executable, "-c", program, *given], cwd=ROOT, check=True)
    predict(run, tmp_path / "new.csv", tmp_path / "here.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
