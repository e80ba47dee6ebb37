"""Columns whose values leak: the advice names them, and its study and scores keep their values together."""

import random
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.stats import t
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from lib.advice.columns import find_columns
from lib.advice.leaks import find_leaks
from lib.advice.preparing import own_texts
from lib.advice.quick import fall_of, quick_rows
from lib.core.errors import DataError
from lib.preparing.labelled import SPLITS, prepare_dataset
from lib.preparing.settings.preparation import Preparation

PROGRAM = Path(__file__).resolve().parents[3] / "scripts/tools/advise.py"


def notes(*, habits=4, seed=0):
    """8 notes for each of 30 patients, whose words tell who they are, and hardly the label."""
    draw, rows = random.Random(seed), []
    for patient in range(30):
        label, own = "yes" if draw.random() < 0.5 else "no", [f"habit{draw.randrange(200)}" for _ in range(5)]
        for _ in range(8):
            said = [f"sign{label}"] * (draw.random() < 0.15) + draw.choices(own, k=habits)
            said += draw.choices([f"word{n}" for n in range(40)], k=5)
            rows.append({"review": " ".join(said), "mood": label, "patient": 100 + patient})
    return pd.DataFrame(rows).assign(ward=[f"w{draw.randrange(6)}" for _ in rows])


def looked_at(path, frame, by=None):
    """Return the texts of a file, the columns that were scored, and what is said of others."""
    frame.to_csv(path, index=False)
    columns = find_columns([path], "review", "mood", None)
    own = own_texts([path], column=columns.text, label=columns.label, dialect=columns.dialect, by=by)
    return own, *find_leaks([path], columns, own, {}, 60, by)


def test_planted_leak_is_named_and_kept_out_of_the_scores(tmp_path):
    frame = notes()
    frame.loc[frame.index[:2], "mood"] = "rare"  # left out, as by a random split
    random_own, falls, said = looked_at(tmp_path / "notes.csv", frame)
    assert [name for name, fall in falls.items() if fall.leaks][:1] == ["patient"]
    assert falls["patient"].lost > 0.2
    assert (falls["ward"].leaks, said) == (False, [])
    own, given, _ = looked_at(tmp_path / "notes.csv", frame, by="patient")
    kept = {"split": {"by": "patient"}, "labels": ["no", "yes"], "values": {"rare": None}}
    assert (list(given), own.settings) == (["patient"], random_own.settings | kept)
    promised, honest = (quick_rows(each, {}, {}, 0) for each in (random_own, own))
    assert promised.paired.f1().max() - honest.paired.f1().max() > 0.2
    assert (promised.by, honest.by, len(honest.labels)) == (None, "patient", own.splits["train"])
    assert honest.paired.documents.max() + 1 == len({*own.sample_groups}), "intervals are over patients"
    prepare_dataset({"all": [tmp_path / "notes.csv"]}, tmp_path / "out", Preparation.model_validate(own.settings))
    who = frame.groupby("review")["patient"].agg(set)
    found = [set().union(*who[pd.read_parquet(tmp_path / f"out/{split}.parquet")["text"]]) for split in SPLITS]
    assert sum(map(len, found)) == len(set().union(*found)) == 30


def test_fall_equals_own_code_that_leaves_each_value_out():
    table = notes().rename(columns={"review": "text", "mood": "label", "patient": "value"})
    features = TfidfVectorizer(min_df=2, ngram_range=(1, 2)).fit_transform(table["text"])
    model = OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear", dual=True, random_state=0))
    folds, values = StratifiedGroupKFold(5, shuffle=True, random_state=0), pd.factorize(table["value"])[0]
    given = [
        cross_val_predict(model, features, table["label"], groups=groups, cv=folds)
        for groups in (np.random.default_rng(0).permutation(values), values)
    ]

    def scores(rows):
        return [f1_score(table["label"][rows], each[rows], average="macro") for each in given]

    found, without = fall_of(table, {}, 0.01), [np.subtract(*scores(values != value)) for value in range(30)]
    half = t.ppf(0.995, 29) * np.sqrt(29 / 30 * ((without - np.mean(without)) ** 2).sum())
    assert (found.random, found.apart) == pytest.approx(scores(values >= 0), abs=1e-9)
    assert found.interval == pytest.approx((found.lost - half, found.lost + half), abs=1e-9)


@pytest.mark.extended
def test_random_values_are_hardly_ever_named():
    named = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        table = notes(habits=0, seed=seed).rename(columns={"review": "text", "mood": "label"})
        named += fall_of(table.assign(value=draw.integers(5 + seed, size=len(table))), {}, 0.05).leaks
    assert named <= 4


def test_other_forms_of_the_label_are_not_named(tmp_path):
    draw = np.random.default_rng(0)
    points, numbers = draw.integers(80, 100, size=300), np.arange(300)
    frame = pd.DataFrame({"review": [f"taste{n} taste{n + 1} taste{n} taste{n + 1}" for n in points], "points": points})
    frame["review"] += [f" {n}" for n in numbers]
    frame["mood"], frame["stars"] = np.where(points < 90, "bad", "good"), points // 2 - 39
    frame["kind"], frame["text"] = [f"{n // 3}er" for n in points], [f"t{n}" for n in numbers % 40]
    frame["gaps"] = ["", *(f"g{n}" for n in numbers[1:] % 30)]
    _, falls, said = looked_at(tmp_path / "wines.csv", frame)
    assert {name: fall.leaks for name, fall in falls.items()} == {"text": False}
    forms = [
        f"`{name}` was not scored for leaks: it may be another form of the label."
        for name in ("points", "stars", "kind")
    ]
    assert {*said} == {*forms, "`gaps` was not scored for leaks: documents lack a value."}
    _, falls, _ = looked_at(tmp_path / "wines.csv", frame, by="stars")
    assert list(falls) == ["stars"]


@pytest.mark.extended
def test_program_tells_the_leak_and_takes_a_no(tmp_path, capsys):
    main = runpy.run_path(str(PROGRAM))["main"]
    notes().to_csv(tmp_path / "notes.csv", index=False)
    given = ["--texts", tmp_path / "notes.csv", "--column", "review", "--label", "mood", "--seconds", 10]
    for by, split in ([], "patient"), (["--by", "none"], None), (["--by", "ward"], "ward"):
        main([*map(str, given), "--device", "cpu", "--out", str(tmp_path / "own.yaml"), *by])
        dataset = yaml.safe_load((tmp_path / "own.yaml").read_text())["experiment"]["datasets"]["texts"]
        printed = capsys.readouterr().out
        shares = {"validation": 0.2, "test": 0.2} if split == "ward" else {}  # of six values, a tenth is none
        assert dataset.get("split") == (split and {"by": split} | shares)
        assert ("where no value is in two folds" in printed) == bool(split)
        assert ("**`patient` leaks:** documents of one value are alike." in printed) == (split == "patient")
        assert f"intervals over {f'values of `{split}`' if split else 'documents'}" in printed
    with pytest.raises(DataError, match="--by ward: texts without labels have no test split"):
        main([*map(str, given[:4]), "--unlabelled", "--by", "ward", "--out", str(tmp_path / "own.yaml")])
