"""Descriptions of texts: by hand-made cases, and the search for near copies against all pairs."""

import json
import random
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from lib.core.errors import DataError
from lib.preparing.settings.dataset import NearCopies, TextDescription
from studies.hate_speech.description import describe_dataset, jaccard, near_copies, recall, shingles, words_of

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


def test_every_document_is_described(files, tmp_path):
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


def test_what_a_near_copy_is_stands_in_the_file(files, tmp_path):
    described(files, tmp_path / "texts.parquet", near_copies={"unit": "words", "size": 1, "threshold": 1.0})
    known = json.loads(pq.read_schema(tmp_path / "texts.parquet").metadata[b"near_copies"])
    assert known == {"unit": "words", "size": 1, "threshold": 1.0, "permutations": 128, "recall": 1.0}
    assert not pd.read_parquet(tmp_path / "texts.parquet")["near_copy"].any(), "it has a word more"


def test_documents_may_have_no_class(files, tmp_path):
    for file in files.values():
        texts = pd.read_parquet(file)
        texts.assign(label=[[[0, 2]]] * len(texts)).to_parquet(file)
    assert described(files, tmp_path / "texts.parquet", labels=None)["label"].isna().all()


def test_the_program_describes_and_leaves_nothing_half_made(files, tmp_path):
    main = runpy.run_path(str(PROGRAM))["main"]
    arguments = ["--settings", '{"labels": ["no", "yes"]}', "--data", *map(str, files.values()), "--out"]
    main([*arguments, str(tmp_path / "out/texts.parquet")])
    assert len(pd.read_parquet(tmp_path / "out/texts.parquet")) == 7
    files["test"].write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"test\.parquet: cannot be read.*Prepare the dataset again"):
        main([*arguments, str(tmp_path / "again/texts.parquet")])
    assert not (tmp_path / "again/texts.parquet").exists()


def test_shingles_are_runs_of_words_or_characters():
    words = NearCopies(unit="words", size=2)
    assert shingles(" To  be or\nnot to be", words) == {"to be", "be or", "or not", "not to"}
    assert shingles("Hello", words) == {"hello"}
    assert shingles("", words) == {""}
    assert shingles("A  bcd", NearCopies(unit="characters", size=4)) == {"a bc", " bcd"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("so-called  words,\nof a text", ["so-called", "words,", "of", "a", "text"]),
        ("这里的 hotel很好", ["这", "里", "的", "hotel", "很", "好"]),
        ("カード", ["カ", "ー", "ド"]),
        ("映画がスキ です", ["映", "画", "が", "ス", "キ", "で", "す"]),
        ("ที่นี่ ดี", ["ที่", "นี่", "ดี"]),
        ("한국어 영화", ["한국어", "영화"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
    ],
)
def test_words_are_counted_by_one_rule_for_every_script(text, words):
    assert words_of(text) == words


def test_near_copies_are_found_in_texts_without_spaces():
    training = ["这家酒店的房间很干净服务也很好下次还会再来"]
    texts = ["这家酒店的房间很干净服务也很好下次不会再来", "菜太咸了而且送餐用了两个小时"]
    assert near_copies(texts, training, NearCopies()).tolist() == [True, False]


def test_similarity_is_what_is_shared_of_all():
    assert jaccard({"a", "b", "c"}, {"b", "c", "d"}) == 0.5
    assert jaccard({"a"}, {"a"}) == 1
    assert jaccard({"a"}, {"b"}) == 0


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_near_copies_are_those_of_all_pairs(threshold):
    """Every one called so is one; of texts much nearer than the threshold none is missed, of others hardly any."""
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


def test_the_order_of_training_makes_no_difference():
    texts = [f"{ENGLISH} {number}" for number in range(20)]
    training = [ENGLISH, GERMAN, *(f"{number} {ENGLISH}" for number in range(20))]
    settings = NearCopies(threshold=0.9)
    forwards, backwards = near_copies(texts, training, settings), near_copies(texts, training[::-1], settings)
    assert forwards.tolist() == backwards.tolist()


@pytest.mark.parametrize(
    ("threshold", "permutations", "expected"),
    [
        (0.5, 128, 0.9964),  # 42 bands of 3 rows; 32 of 4 would find 87 %
        (0.7, 128, 0.9900),  # 25 bands of 5; 21 of 6 would find 93 %
        (1.0, 128, 1.0),
        (0.1, 16, 0.8147),  # even 16 bands of one row find no more
    ],
)
def test_bands_have_as_many_rows_as_the_recall_allows(threshold, permutations, expected):
    assert recall(NearCopies(threshold=threshold, permutations=permutations)) == pytest.approx(expected, abs=1e-4)


def test_no_text_is_near_to_none():
    assert near_copies([], [ENGLISH], NearCopies()).tolist() == []
    assert near_copies([ENGLISH], [], NearCopies()).tolist() == [False]
