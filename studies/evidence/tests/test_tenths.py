"""TF-IDF on tenths of documents: which tenth holds the evidence, and that none is named where it is everywhere."""

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.backbones.settings import BACKBONES
from lib.backbones.tfidf.backbone import part_of
from lib.evaluation.statistics import holm
from lib.results.scope import Scope
from studies.evidence.results.kinds.tenths import (
    PARTS,
    WHOLE,
    TenthsTable,
    against_mean,
    predictions_by_part,
    scored,
)

NEUTRAL = [f"neutral{number}" for number in range(30)]
WORDS = 50


def documents(count, place, seed=0, signs=("bad", "good")):
    """Return documents of neutral words, one of which is the sign of the class: in a tenth, or anywhere (None)."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        label = number % len(signs)
        words = draw.choices(NEUTRAL, k=WORDS)
        tenth = draw.randrange(PARTS) if place is None else place
        words[tenth * WORDS // PARTS + draw.randrange(WORDS // PARTS)] = signs[label]
        rows.append({"text": " ".join(words), "label": label})
    return pd.DataFrame(rows)


def made(tmp_path, *places, labels=("no", "yes"), **settings):
    files, shown = [], []
    for number, place in enumerate(places):
        for split, count in (("train", 120), ("test", 80)):
            files.append(tmp_path / f"{number}-{split}.parquet")
            documents(count, place, seed=number + count).to_parquet(files[-1])
            shown.append([f"data{number}", list(labels), split])
    scope = Scope(models=[], stages={}, owners={}, documents=shown, files=files)
    return TenthsTable(kind="tenths", **settings).make(scope)


@given(st.lists(st.sampled_from(["a", "b.", "c"]), max_size=40), st.integers(1, 12))
def test_parts_that_adjoin(words, parts):
    text = " ".join(words)
    found = [part_of(text, (number / parts, (number + 1) / parts)) for number in range(parts)]
    assert " ".join(filter(None, found)) == text
    sizes = [len(each.split()) for each in found]
    assert max(sizes) - min(sizes) <= 1


def test_row_of_a_part():
    frame = documents(200, 3)
    for part, right in (((0.3, 0.4), 1.0), ((0, 0.25), None), (None, 1.0)):
        backbone = BACKBONES.load("tfidf", "backbone").Backbone(
            BACKBONES.parse({"kind": "tfidf", "C": 1.0, "class_weight": None, "part": part, "ngram_max": 1}), seed=0
        )
        backbone.fit(frame["text"], frame["label"])
        assert ("good" in backbone.classifier[0].vocabulary_) == (right is not None)
        found = (backbone.class_probabilities(frame["text"], 2).argmax(axis=1) == frame["label"]).mean()
        assert found == right if right else found < 1


def test_tenth_with_the_evidence(tmp_path):
    frame = made(tmp_path, 3).frame
    assert frame["tenth"].tolist() == [WHOLE, *map(str, range(1, PARTS + 1))]
    best = frame.loc[frame["tenth"] == "4"].squeeze()
    assert best["f1"] == 100
    assert best["p"] < 0.001
    others = frame[~frame["tenth"].isin([WHOLE, "4"])]
    assert (others["f1"] < 75).all()
    assert frame.loc[0, ["difference", "p"]].isna().all()


def macro_f1(labels, predicted):
    right = [((predicted == each) & (labels == each)).sum() for each in (0, 1)]
    sizes = [(predicted == each).sum() + (labels == each).sum() for each in (0, 1)]
    return np.mean([2 * count / size for count, size in zip(right, sizes, strict=True)])


def test_differences_of_tenths():
    train, test = documents(120, 3), documents(60, 3, seed=1)
    labels = test["label"].to_numpy()
    predictions = predictions_by_part(train["text"], train["label"], test["text"], 2, {})
    assert predictions.shape == (1 + PARTS, len(test))
    differences, p_values = against_mean(scored(test["label"], predictions, 2))
    for kept, found in (
        (np.full(60, True), [each.values[0] for each in differences]),
        (np.arange(60) != 7, [each.left_out[7, 0] for each in differences]),
    ):
        f1 = np.array([macro_f1(labels[kept], row[kept]) for row in predictions[1:]])
        assert found == pytest.approx(f1 - f1.mean())
    assert p_values == pytest.approx(holm([each.p_value() for each in differences]))


def test_characters_without_spaces(tmp_path):
    draw = random.Random(0)
    for split, count in (("train", 120), ("test", 60)):
        rows = []
        for number in range(count):
            signs = [chr(0x4E00 + draw.randrange(40)) for _ in range(WORDS)]
            signs[7] = "坏好"[number % 2]
            rows.append({"text": "".join(signs), "label": number % 2})
        pd.DataFrame(rows).to_parquet(tmp_path / f"{split}.parquet")
    shown = [("data", ["no", "yes"], split) for split in ("train", "test")]
    scope = Scope([], {}, {}, documents=shown, files=[tmp_path / "train.parquet", tmp_path / "test.parquet"])
    frame = TenthsTable(kind="tenths", unit="characters").make(scope).frame.set_index("tenth")
    assert frame["f1"].drop(WHOLE).idxmax() == "2"
