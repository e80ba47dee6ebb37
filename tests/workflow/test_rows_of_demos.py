"""`predict` and the records of the shipped miniatures say the same of the same documents, whatever the row is.

It reads what `make demo` and `make demo STUDY=<name>` left in `results`.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from lib.core.files import read_mapping
from lib.core.record import read_record
from lib.predicting.predict import predict
from lib.study.reader import read_reader

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
DEMOS = sorted(path.stem for place in ("config", "studies/*") for path in ROOT.glob(f"{place}/demo*.yaml"))


@pytest.fixture
def threads():
    """Set the threads of a run, since sums of other numbers of them may differ in the last digits."""
    before = torch.get_num_threads()

    def set_as_in(record):
        named = re.search(r"(\d+) threads", record.hardware or "")
        torch.set_num_threads(int(named[1]) if named else before)

    yield set_as_in
    torch.set_num_threads(before)


def answers_of(record, settings, frame):
    """Return what a CSV of predictions should hold, by column."""
    if settings.task.label_form == "number":
        return {"prediction": frame["prediction"]}
    if settings.task.label_form == "word":
        return {"labels": [[settings.labels[each] for each in row] for row in frame["prediction"]]}
    if settings.task.label_form == "span":
        return {"spans": [json.dumps([[*map(int, span)] for span in row]) for row in frame["prediction"]]}
    labels = [settings.labels[each] if each >= 0 else "" for each in frame["prediction"]]
    return {"label": labels} | dict(zip(settings.labels, np.stack(frame["probabilities"]).T, strict=True))


@pytest.mark.parametrize("demo", DEMOS)
def test_predictions_equal_the_records(demo, threads, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    runs = [path.parent for path in sorted(ROOT.glob(f"results/{demo}/runs/**/predictions.parquet"))]
    if not runs:
        pytest.skip(f"results/{demo} holds no run: make demo, or make demo STUDY={demo.removeprefix('demo_')}")
    for run in runs:
        compare(run, threads, tmp_path)


def compare(run, threads, tmp_path):
    record, settings = read_record(run), read_reader(run / "model")
    threads(record)
    test = Path(read_mapping(run / "config.yaml")["data"]["test"])
    prepared = [test] if test.suffix == ".parquet" else test.parents[2].glob("*/test.parquet")
    frame = pd.read_parquet(run / "predictions.parquet").query("split == 'test'").set_index("id")
    source = next(path for path in prepared if set(pd.read_parquet(path, columns=["id"])["id"]) == set(frame.index))
    documents = pd.read_parquet(source)
    pair = "text_pair" if "text_pair" in documents else None
    predict(run / "model", source, tmp_path / "out.csv", id="id", column="text", pair_column=pair, device="cpu")
    expected = answers_of(record, settings, frame.loc[documents["id"]].reset_index())
    of_words = settings.task.label_form == "word"
    kinds = {} if of_words else {name: np.asarray(values).dtype for name, values in expected.items()}
    texts = {name: str for name, kind in kinds.items() if kind.kind in "OU"}
    types = {"id": str} | kinds | texts
    found = pd.read_csv(tmp_path / "out.csv", dtype=types, keep_default_na=False, float_precision="round_trip")
    assert found["id"].tolist() == documents["id"].tolist(), run
    if of_words:  # the record has those of words with a label, predictions those of all
        rows = zip(found["labels"].map(json.loads), documents["label"], strict=True)
        found["labels"] = [[name for name, label in zip(*row, strict=False) if label >= 0] for row in rows]
    for name, values in expected.items():
        assert found[name].tolist() == (values if of_words else np.asarray(values).tolist()), f"{run}: {name}"
