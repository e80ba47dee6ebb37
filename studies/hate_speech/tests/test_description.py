"""Descriptions of texts: by hand-made cases, and the search for near copies against all pairs."""

import random
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from text_descriptions import SCHEMA as EXPECTED

from lib.core.errors import DataError
from lib.preparing.settings.dataset import NearCopies, TextDescription

pytest.importorskip("datasketch", reason="an optional package of the study")

from studies.hate_speech.description import (
    SCHEMA,
    describe_dataset,
    jaccard,
    near_copies,
    recall,
    shingles,
    words_of,
)

pytestmark = pytest.mark.extended

PROGRAM = Path(__file__).resolve().parents[3] / "studies/hate_speech/scripts/describe_dataset.py"
ENGLISH = "The committee will publish its report on the state of the railways next week"
GERMAN = "Der Ausschuss wird seinen Bericht zum Zustand der Eisenbahn nächste Woche veröffentlichen"
SPLITS = {
    "train": [(ENGLISH, 0), (GERMAN, 1), (ENGLISH, 0)],
    "validation": [(f"{ENGLISH.upper()} !", 1), ("one two", 0)],
    "test": [("1 2 3 4", 1), ("three four five", 0)],
}


@pytest.fixture
def files(tmp_path):
    """The prepared splits of a small dataset."""
    made = {}
    for split, rows in SPLITS.items():
        texts, labels = zip(*rows, strict=True)
        made[split] = tmp_path / f"{split}.parquet"
        ids = [f"{split}-{number}" for number in range(len(rows))]
        pd.DataFrame({"id": ids, "text": texts, "label": labels}).to_parquet(made[split])
    return made


def described(files, target, **settings):
    describe_dataset(files, target, TextDescription.model_validate({"labels": ["no", "yes"]} | settings))
    return pd.read_parquet(target)


def test_documents_described(files, tmp_path):
    assert SCHEMA == EXPECTED
    texts = described(files, tmp_path / "texts.parquet")
    assert texts["id"].tolist() == [
        f"{split}-{number}" for split, rows in SPLITS.items() for number in range(len(rows))
    ]
    assert texts["split"].tolist() == [split for split, rows in SPLITS.items() for _ in rows]
    assert texts["label"].tolist() == ["no", "yes", "no", "yes", "no", "yes", "no"]
    assert texts["words"].tolist() == [14, 12, 14, 15, 2, 4, 3]
    assert texts["language"].tolist()[:3] == ["en", "de", "en"]
    assert texts["language"].iloc[3] == "en", "capitals are letters, too"
    assert texts["repeated"].tolist() == [False, False, True, False, False, False, False]
    assert texts["near_copy"].tolist() == [None, None, None, True, False, False, False]
    assert texts["featureless"].tolist() == [False, True, False, False, True, True, True]


def test_program_of_descriptions(files, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    arguments = ["--settings", '{"labels": ["no", "yes"]}', "--data", *map(str, files.values()), "--out"]
    main([*arguments, str(tmp_path / "out/texts.parquet")])
    assert len(pd.read_parquet(tmp_path / "out/texts.parquet")) == 7
    files["test"].write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read.*Prepare the dataset again"):
        main([*arguments, str(tmp_path / "again/texts.parquet")])
    assert not (tmp_path / "again/texts.parquet").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("so-called  words,\nof a text", ["so-called", "words,", "of", "a", "text"]),
        ("这里的 hotel很好", ["这", "里", "的", "hotel", "很", "好"]),
        ("ที่นี่ ดี", ["ที่", "นี่", "ดี"]),
    ],
)
def test_words_of_every_script(text, words):
    assert words_of(text) == words


def test_near_copies_without_spaces():
    training = ["这家酒店的房间很干净服务也很好下次还会再来"]
    texts = ["这家酒店的房间很干净服务也很好下次不会再来", "菜太咸了而且送餐用了两个小时"]
    assert near_copies(texts, training, NearCopies()).tolist() == [True, False]


def test_near_copies_of_all_pairs():
    """Every one called so is one; of texts much nearer than the threshold none is missed, of others hardly any."""
    threshold = 0.5
    rng = random.Random(3)
    vocabulary = [f"w{number}" for number in range(400)]
    training = [rng.choices(vocabulary, k=20) for _ in range(150)]
    texts = [
        [rng.choice(vocabulary) if rng.random() < number / 150 else word for word in words]
        for number, words in enumerate(training)
    ]
    settings = NearCopies(unit="words", size=1, threshold=threshold)
    sets = [[shingles(" ".join(words), settings) for words in each] for each in (texts, training)]
    nearest = np.array([max(jaccard(mine, other) for other in sets[1]) for mine in sets[0]])
    found = near_copies([" ".join(words) for words in texts], (" ".join(words) for words in training), settings)
    near = nearest >= threshold
    assert 10 < near.sum() < 140
    assert not found[~near].any()
    assert found[nearest >= min(1, threshold + 0.15)].all()
    assert found[near].mean() > 0.95


def test_order_of_training():
    texts = [f"{ENGLISH} {number}" for number in range(20)]
    training = [ENGLISH, GERMAN, *(f"{number} {ENGLISH}" for number in range(20))]
    settings = NearCopies(threshold=0.9)
    forwards, backwards = near_copies(texts, training, settings), near_copies(texts, training[::-1], settings)
    assert forwards.tolist() == backwards.tolist()


@pytest.mark.parametrize(
    ("threshold", "permutations", "expected"),
    [(0.5, 128, 0.9964), (1.0, 128, 1.0)],
)
def test_bands_by_recall(threshold, permutations, expected):
    assert recall(NearCopies(threshold=threshold, permutations=permutations)) == pytest.approx(expected, abs=1e-4)
