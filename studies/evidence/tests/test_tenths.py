"""TF-IDF on tenths of documents: which tenth holds the evidence, and that none is named where it is everywhere."""

import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.backbones.settings import BACKBONES
from lib.backbones.tfidf.backbone import part_of
from lib.core.errors import DataError
from lib.evaluation.statistics import holm
from lib.results.scope import Scope
from lib.results.table import SMALL_P
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
def test_parts_that_adjoin_share_no_word_and_have_all(words, parts):
    text = " ".join(words)
    found = [part_of(text, (number / parts, (number + 1) / parts)) for number in range(parts)]
    assert " ".join(filter(None, found)) == text
    sizes = [len(each.split()) for each in found]
    assert max(sizes) - min(sizes) <= 1


def test_characters_are_divided_where_they_are_counted():
    assert [part_of("房间很小", (start, start + 0.5), "characters") for start in (0, 0.5)] == ["房间", "很小"]


def test_a_row_that_reads_a_part_classifies_by_this_part_alone():
    frame = documents(200, 3)
    for part, right in (((0.3, 0.4), 1.0), ((0, 0.25), None), (None, 1.0)):
        backbone = BACKBONES.load("tfidf", "backbone").Backbone(
            BACKBONES.parse({"kind": "tfidf", "C": 1.0, "class_weight": None, "part": part, "ngram_max": 1}), seed=0
        )
        backbone.fit(frame["text"], frame["label"])
        assert ("good" in backbone.classifier[0].vocabulary_) == (right is not None)
        found = (backbone.class_probabilities(frame["text"], 2).argmax(axis=1) == frame["label"]).mean()
        assert found == right if right else found < 1


def test_the_tenth_with_the_evidence_is_significantly_better(tmp_path):
    frame = made(tmp_path, 3).frame
    assert frame["tenth"].tolist() == [WHOLE, *map(str, range(1, PARTS + 1))]
    best = frame.loc[frame["tenth"] == "4"].squeeze()
    assert best["f1"] == 100
    assert best["p"] < 0.001
    others = frame[~frame["tenth"].isin([WHOLE, "4"])]
    assert (others["f1"] < 75).all()
    assert frame.loc[0, ["difference", "p"]].isna().all()


def test_no_tenth_is_better_where_the_evidence_is_anywhere(tmp_path):
    """Under the null, Holm's correction keeps a wrong finding to one study in twenty; these draws have none."""
    table = made(tmp_path, None, None, None)
    assert (
        f"p (Holm): of no difference from the mean, corrected for the {PARTS} tenths of a dataset. {SMALL_P}"
        in table.note
    )
    frame = table.frame
    assert frame["dataset"].unique().tolist() == ["data0", "data1", "data2"]
    tenths = frame[frame["tenth"] != WHOLE]
    assert (tenths["p"] > 0.05).all()
    assert tenths.groupby("dataset")["difference"].mean().abs().max() < 1e-9


def macro_f1(labels, predicted):
    right = [((predicted == each) & (labels == each)).sum() for each in (0, 1)]
    sizes = [(predicted == each).sum() + (labels == each).sum() for each in (0, 1)]
    return np.mean([2 * count / size for count, size in zip(right, sizes, strict=True)])


def test_differences_are_those_of_the_predictions_and_of_all_but_one_document():
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


def test_the_interval_follows_the_confidence(tmp_path):
    wide, narrow = (made(tmp_path, 3, confidence=level).frame for level in (0.99, 0.8))
    tenth = wide["tenth"] == "1"
    assert wide.loc[tenth, "low"].item() < narrow.loc[tenth, "low"].item() <= narrow.loc[tenth, "f1"].item()
    assert narrow.loc[tenth, "f1"].item() <= narrow.loc[tenth, "high"].item() < wide.loc[tenth, "high"].item()


def test_characters_find_evidence_in_texts_without_spaces(tmp_path):
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


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "0-train.parquet").write_bytes(b"PAR1")
    scope = Scope([], {}, {}, documents=[("a", ["x", "y"], "train"), ("a", ["x", "y"], "test")],
                  files=[tmp_path / "0-train.parquet"] * 2)  # fmt: skip
    with pytest.raises(DataError, match=r"0-train.parquet: cannot be read"):
        TenthsTable(kind="tenths").make(scope)


def test_a_tenth_that_finds_none_of_few_documents_is_not_shown_to_be_worse():
    """Each other tenth finds one of 20, another one each; left-out documents change the mean of the tenths alone."""
    labels = pd.Series(np.repeat([0, 1], [180, 20]))
    predictions = np.zeros((1 + PARTS, 200), dtype=int)
    predictions[range(2, 1 + PARTS), range(182, 181 + PARTS)] = 1
    difference = against_mean(scored(labels, predictions, 2))[0][0]
    jackknife = difference.of_documents**0.5
    assert difference.mean < -2.5 * jackknife
    assert difference.p_value() > 0.05
