"""Splits by a column: documents of one value together, or by date."""

import random

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from scipy import sparse
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError, DataError
from lib.preparing.drawing import SplitError, assign_splits
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Preparation, Split


def prepared(folder, frame, suffix="csv", **options):
    path = folder / f"raw.{suffix}"
    frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    settings = Preparation(**{"id": "id", "labels": ["no", "yes"]} | options)
    prepare_dataset({"all": [path]}, folder / "out", settings)
    return {split: pq.read_table(folder / "out" / f"{split}.parquet").to_pandas() for split in SPLITS}


def patients(seed=0):
    """30 patients with 8 notes each: their words tell who they are, and hardly what they have."""
    draw, rows = random.Random(seed), []
    for patient in range(30):
        label, habits = "no" if draw.random() < 0.5 else "yes", [f"habit{draw.randrange(200)}" for _ in range(5)]
        for _ in range(8):
            said = (
                [f"sign{label}"] * (draw.random() < 0.15) + draw.choices(habits, k=4) + [f"w{draw.randrange(50)}"] * 3
            )
            rows.append({"id": len(rows), "text": " ".join(said), "label": label, "patient": f"p{patient}"})
    return pd.DataFrame(rows)


def score(splits):
    backbone = BACKBONES.load("tfidf", "backbone").Backbone(
        BACKBONES.parse({"kind": "tfidf", "min_df": 1, "C": 10, "class_weight": None}), seed=0
    )
    train, test = (pd.concat(parts) for parts in ([splits["train"]], [splits["validation"], splits["test"]]))
    backbone.fit(train["text"], train["label"])
    return f1_score(test["label"], backbone.class_probabilities(test["text"], 2).argmax(axis=1), average="macro")


def test_planted_leak(tmp_path):
    """A random split gains 20 points and more by knowing the patients; one by patient has none of them twice."""
    frame, gains = patients(), []
    for seed in range(5):
        found = {}
        for name, by in (("random", {}), ("by", {"by": "patient"})):
            (tmp_path / f"{name}{seed}").mkdir()
            split = Split(seed=seed, validation=0.2, test=0.2, **by)
            found[name] = prepared(tmp_path / f"{name}{seed}", frame, split=split)
        who = {split: {*frame["patient"][rows["id"].astype(int)]} for split, rows in found["by"].items()}
        assert sum(map(len, who.values())) == len(set().union(*who.values())) == 30
        gains.append(score(found["random"]) - score(found["by"]))
    assert np.mean(gains) > 0.2


@pytest.mark.parametrize("seed", range(0, 200, 4))
def test_values_stay_together_in_random_tables(seed):
    for number in range(seed, seed + 4):
        draw = np.random.default_rng(number)
        values = draw.integers(draw.integers(25, 120), size=600)
        labels = (draw.random(600) < draw.uniform(0.2, 0.8)).astype(int)
        found = assign_splits(labels, ["no", "yes"], Split(by="x", seed=number), together=values)
        assert len(np.unique(values)) == sum(len(np.unique(values[found == split])) for split in range(3))
        largest = np.bincount(values).max()
        for split, share in ((0, 0.8), (1, 0.1), (2, 0.1)):
            for label in (0, 1):
                of_class = labels == label
                assert abs((of_class & (found == split)).sum() - share * of_class.sum()) <= 2 * largest


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("form", ["class", "set", "class by", "set by"])
def test_folds_test_each_document_once(form, seed):
    draw = np.random.default_rng(seed)
    size, count = draw.integers(150, 300), int(draw.integers(2, 8))
    classes = draw.random((size, 2)) < draw.uniform(0.2, 0.8)
    by, values = ("x", draw.integers(draw.integers(25, 60), size=size)) if "by" in form else (None, None)
    sets, labels = (sparse.csr_matrix(classes), np.zeros(size, int)) if "set" in form else (None, classes[:, 0] * 1)
    names, given = ["a", "b"][: 1 + (sets is None)], {"sets": sets, "together": values}
    splits = [Split(folds=count, fold=fold, seed=seed, by=by) for fold in range(1, count + 1)]
    drawn = [assign_splits(labels, names, each, **given) for each in splits]
    assert (np.equal(drawn, 2).sum(axis=0) == 1).all()
    kept = assign_splits(labels, names, splits[0].model_copy(update={"documents": {"test": 9}}), **given)
    assert (kept == 2).sum() == 9
    theirs = (StratifiedGroupKFold if by else StratifiedKFold)(count, shuffle=True, random_state=seed)
    for found, (_, test) in zip(drawn, theirs.split(labels, labels, values), strict=True):
        assert sets is not None or (np.flatnonzero(found == 2) == test).all()
        for split, share in enumerate((0.9 - 1 / count, 0.1, 1 / count)):
            off = abs(classes[found == split].sum(axis=0) - share * classes.sum(axis=0))
            assert by or off[: None if "set" in form else 1].max() < 3
            assert not by or not np.isin(values[found == split], values[found != split]).any()


def dated(days):
    return pd.DataFrame(
        {
            "id": range(len(days)),
            "text": [f"t {n}" for n in range(len(days))],
            "label": ["no", "yes"] * (len(days) // 2),
        }
    ).assign(date=days)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_later_documents_are_tested(suffix, tmp_path):
    days = pd.date_range("2024-01-01", periods=120)
    shown = days if suffix == "parquet" else days.strftime("%Y-%m-%dT%H:%M:%S")
    by_date = {"validation_from": "2024-04-01", "test_from": "2024-04-11"}
    found = prepared(tmp_path, dated(shown), suffix, split=Split(by_date=by_date))
    assert {split: len(rows) for split, rows in found.items()} == {"train": 91, "validation": 10, "test": 19}
    assert found["test"]["id"].astype(int).min() == 101


def test_validation_before_the_first_test_day_is_drawn_by_class(tmp_path):
    by_date = {"column": "date", "test_from": "2024-04-11"}
    found = prepared(
        tmp_path, dated(pd.date_range("2024-01-01", periods=120).astype(str)), split=Split(by_date=by_date)
    )
    assert {split: len(rows) for split, rows in found.items()} == {"train": 90, "validation": 11, "test": 19}
    assert abs(found["validation"]["label"].mean() - 0.5) < 0.1


@pytest.mark.parametrize(
    ("change", "split", "said"),
    [
        ({}, {"by": "date"}, None),
        ({5: ""}, {"by": "date"}, "document '5': split.by needs a name or number in 'date'"),
        (
            {5: "May"},
            {"by_date": {"test_from": "2024-04-01"}},
            "document '5': 'date' has 'May'; expected a date such as",
        ),
        ({}, {"by_date": {"test_from": "2025-01-01"}}, "split.by_date: test has no document left"),
        ({}, {"by_date": {"test_from": "2024-01-02"}}, "too few to split by class"),
        (dict.fromkeys(range(120), "one"), {"by": "date"}, "split.by: 1 values are too few for a share of 0.1"),
        (dict.fromkeys(range(0, 120, 2), "one"), {"by": "date"}, "60 documents of the class 'no' have 'one', so it"),
        ({n: "ab"[n % 4 > 1] for n in range(120)}, {"by": "date", "folds": 3, "fold": 1}, "2 values are too few"),
        ({}, {"folds": 61, "fold": 1}, "for 61 folds: no: 60, yes: 60; expected at least 61 of every class"),
        ({}, {"folds": 3}, "split.fold: missing. Expected a number up to 3"),
        (
            dict.fromkeys(range(0, 120, 2), "2024-05-01"),
            {"by_date": {"validation_from": "2024-03-01", "test_from": "2024-03-11"}},
            "too few documents by split.by_date in train: no: 0, yes: 30",
        ),
    ],
)
def test_columns_that_split_nothing(change, split, said, tmp_path):
    days = [change.get(number, day) for number, day in enumerate(pd.date_range("2024-01-01", periods=120).astype(str))]
    if said is None:
        assert len(prepared(tmp_path, dated(days), split=Split(**split))["test"]) == 12
        return
    with pytest.raises((ConfigError, DataError, SplitError), match=said):
        prepared(tmp_path, dated(days), split=Split(**split))


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ({"by": "patient", "published": True}, "published and by both define the splits"),
        ({"by_date": {"test_from": "2024-04-01"}, "held_out": "test"}, "held_out and by_date both define the splits"),
        ({"by_date": {"validation_from": "2024-05-01", "test_from": "2024-04-01"}}, "is not before test_from"),
        ({"folds": 3, "published": True}, "published and folds both define the splits"),
        ({"folds": 3, "held_out": "test"}, "folds and held_out both define the splits"),
        ({"folds": 3, "by_date": {"test_from": "2024-04-01"}}, "folds and by_date both define the splits"),
        ({"folds": 3, "fold": 4}, "fold = 4, but folds draws 3"),
        ({"folds": 3, "test": 0.3}, "test = 0.3, but one of the 3 folds is tested"),
        ({"folds": 3, "validation": 0.7}, "validation = 0.7 and test = 0.333; expected shares"),
    ],
)
def test_settings_that_contradict(split, said):
    with pytest.raises(ValidationError, match=said):
        Split(**split)
    assert Split(published=True, held_out="test").given == "published"  # as a study that extends another may have it


@pytest.mark.parametrize("split", [{"by": "patient"}, {"folds": 3}])
def test_balance_keeps_nothing_together(split):
    with pytest.raises(ValidationError, match=f"balance draws documents, but split.{min(split)} takes all"):
        Preparation(labels=["no", "yes"], balance=True, split=Split(**split))
