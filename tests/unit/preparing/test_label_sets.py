"""Several labels per document: from every form of a file to splits that hold every class by its share."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from scipy import sparse

from lib.core.errors import DataError
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Preparation, Split
from lib.preparing.stratified import stratified_splits

NAMES = ["tax", "trade", "fish law"]
SETS = [[0, 2], [], [1], [0], [0, 1, 2], [1]] * 20


def labelled(form):
    """The documents of `SETS` as a form writes them, and the settings that read it."""
    sets = [[NAMES[number] for number in each] for each in SETS]
    rows = pd.DataFrame({"key": range(len(sets)), "text": [f"text {number}" for number in range(len(sets))]})
    if form in ("parquet", "jsonl"):
        return rows.assign(label=sets), {}
    if form == "python":
        return rows.assign(label=list(map(str, sets))), {}
    if form == "columns":
        marks = {name: [int(name in each) for each in sets] for name in NAMES}
        return rows.assign(**marks), {"given_as": "columns"}
    if form == "rows":
        return rows.assign(label=[each or [""] for each in sets]).explode("label"), {"given_as": "rows"}
    return rows.assign(label=[f" {form} ".join(each) for each in sets]), {"separator": form}


def prepared(folder, frame, suffix="csv", labels=NAMES, **options):
    path = folder / f"raw.{suffix}"
    write = {"parquet": frame.to_parquet, "jsonl": frame.to_json}.get(suffix, frame.to_csv)
    write(path, **({"orient": "records", "lines": True} if suffix == "jsonl" else {"index": False}))
    prepare_dataset({"all": [path]}, folder / "out", Preparation(**{"labels": labels, "label_set": {}} | options))
    rows = [row for split in SPLITS for row in pq.read_table(folder / "out" / f"{split}.parquet").to_pylist()]
    return rows, json.loads((folder / "out/summary.json").read_text())


@pytest.mark.parametrize("form", ["parquet", "jsonl", "python", "columns", "rows", ";", "|", ","])
def test_forms_that_give_the_same_documents(form, tmp_path):
    frame, settings = labelled(form)
    rows, summary = prepared(
        tmp_path, frame, form if form in ("parquet", "jsonl") else "csv", id="key", label_set=settings
    )
    assert {int(row["id"]): row["label"] for row in rows} == dict(enumerate(SETS))
    assert summary["splits"]["train"]["labels"] == {"tax": 48, "trade": 48, "fish law": 32}
    sizes = [split["documents_by_number_of_labels"] for split in summary["splits"].values()]
    assert {number: sum(each[number] for each in sizes) for number in "0123"} == {"0": 20, "1": 60, "2": 20, "3": 20}


def test_labels_that_are_none_are_counted(tmp_path, caplog):
    frame = pd.DataFrame({"text": [f"t {n}" for n in range(60)], "label": ["tax;tax;?", "", "trade"] * 20})
    rows, summary = prepared(
        tmp_path, frame, label_set={"separator": ";", "at_least": 1}, values={"?": None}, labels=["tax", "trade", "law"]
    )
    assert {tuple(row["label"]) for row in rows} == {(0,), (1,)}
    assert summary["parts"]["all"]["unlabelled"] == 20
    assert "labels that a document has more than once: labels 20" in caplog.text
    assert "1 classes have no training document: law" in caplog.text


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["tax;fish", "tax"], {"label_set": {"separator": ";"}}, "document 1: the label is 'fish'; expected one of"),
        (["tax|trade", "tax"], {}, "document 1: 'label' has 'tax|trade'; expected a list.*label_set.separator"),
        ([["tax"], "tax"], {}, "document 2: 'label' has 'tax'; expected a list"),
        ([0, 2], {"label_set": {"given_as": "columns"}}, "document 2: 'tax' has '2'; expected 0 or 1"),
        (["", ""], {}, "train: none of its 96 documents has a label"),
    ],
)
def test_labels_that_nobody_may_guess(labels, options, said, tmp_path):
    frame = pd.DataFrame({"text": [f"t {n}" for n in range(120)], "label": labels * 60})
    if "given_as" in options.get("label_set", {}):
        frame = frame.assign(**dict.fromkeys(NAMES, 0) | {"tax": frame["label"]})
    with pytest.raises(DataError, match=said):
        prepared(tmp_path, frame, "jsonl" if isinstance(labels[0], list) else "csv", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"label_set": {"separator": "sh"}}, "'fish law' has the separator 'sh' in it"),
        ({"label_set": {"given_as": "rows"}}, "rows of a document have the same id. Set id"),
        ({"label_set": {"given_as": "columns", "separator": ";"}}, "label_set.separator: ';', but labels are given as"),
        ({"label_set": {}, "balance": True}, "label_set: documents have several classes"),
        ({"label_set": {}, "label_per": "word"}, "label_set: documents have several classes"),
    ],
)
def test_settings_that_do_not_fit_sets(options, said):
    with pytest.raises(ValidationError, match=said):
        Preparation(labels=NAMES, **options)


@pytest.mark.parametrize("published", [False, True])
def test_number_of_documents_by_share(published, tmp_path):
    frame, _ = labelled("jsonl")
    paths = {part: [tmp_path / f"{part}.jsonl"] for part in SPLITS}
    for (path,) in paths.values():
        frame.to_json(path, orient="records", lines=True)
    split = Split(published=published, documents={"train": 60})
    prepare_dataset(paths, tmp_path / "out", Preparation(labels=NAMES, label_set={}, split=split))
    labels = pq.read_table(tmp_path / "out/train.parquet")["label"].to_pylist()
    assert len(labels) == 60
    assert [sum(number in each for each in labels) for number in range(3)] == [30, 30, 20]


@pytest.mark.parametrize("seed", range(50))
def test_splits_of_random_tables(seed):
    """Every class has the documents of its share in each split, or one more or fewer; sizes are exact."""
    draws = np.random.default_rng(seed)
    documents, classes = draws.integers(80, 800), draws.integers(3, 20)
    dense = draws.random((documents, classes)) < draws.uniform(0.005, 0.25, classes) * 2 * draws.random((documents, 1))
    sizes = [documents - 2 * (tenth := int(documents // 10)), tenth, tenth]
    splits = stratified_splits(sparse.csr_matrix(dense), sizes, seed)
    assert list(map(len, splits)) == sizes
    assert sorted(np.concatenate(splits)) == list(range(documents))
    for size, split in zip(sizes, splits, strict=True):
        best = (dense.sum(axis=0) * size / documents).round()
        assert np.abs(dense[split].sum(axis=0) - best).max() <= 1
    again = stratified_splits(sparse.csr_matrix(dense), sizes, seed)
    assert all(np.array_equal(one, other) for one, other in zip(splits, again, strict=True))
