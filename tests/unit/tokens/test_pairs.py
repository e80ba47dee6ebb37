"""Pairs of texts, labels that are numbers, and test documents without labels: read, prepared, tokenised, batched."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from datasets import load_from_disk
from tables import write_table

from lib.core.errors import DataError
from lib.preparing.labelled import prepare_dataset
from lib.preparing.settings.preparation import Preparation
from lib.reading.readers import read_records
from lib.tokens.batches import ClassificationCollator
from lib.tokens.cutting import encode_cut_pairs
from lib.tokens.stored import TokenDataset, has_labels, share_longer
from lib.tokens.tokenizing import StoredTexts, tokenize_dataset
from lib.tokens.vocabularies import train_words

WORDS = [f"{first}{second}" for first in "abcdef" for second in "aeiou"]
PARTS = ("train", "validation", "test")
ROWS = [("one two", "three", 0), ("four", "five six", 1), ("one two", "seven", 1), ("eight", "three", 0)]


def written(folder, suffix, rows=ROWS, columns=("first", "second", "label"), name="file"):
    """Return a file of pairs in a format."""
    return write_table(pd.DataFrame(rows, columns=columns), folder / f"{name}.{suffix}")


def prepared(folder, rows=ROWS, test=ROWS, **settings):
    """Return the prepared splits of published parts and the summary; `test` are the rows of test."""
    files = {}
    for part in PARTS:
        found = test if part == "test" else rows
        files[part] = [written(folder, "parquet", found, ("first", "second", "label")[: len(found[0])], part)]
    split = {"published": True} | settings.pop("split", {})
    values = {"text": "first", "text_pair": "second", "labels": ["no", "yes"], "split": split} | settings
    prepare_dataset(files, folder / "prepared", Preparation.model_validate(values))
    frames = {part: pd.read_parquet(folder / "prepared" / f"{part}.parquet") for part in PARTS}
    return frames, json.loads((folder / "prepared" / "summary.json").read_text())


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_pairs_from_files(tmp_path, suffix):
    path = written(tmp_path, suffix)
    records = read_records({"train": [path]}, text="first", text_pair="second", label="label", labels=["no", "yes"])
    assert [(each.text, each.text_pair, each.label) for each in records] == ROWS


def test_pairs_cleaned(tmp_path):
    rows = [*ROWS, ("<b>nine", "ten<b>", 1), ("<b>", "eleven", 1), ("twelve", " ", 0)]
    frames, summary = prepared(tmp_path, rows, remove="<b>")
    assert frames["train"][["text", "text_pair"]].to_numpy().tolist()[-1] == ["nine", "ten"]
    assert len(frames["train"]) == len(ROWS) + 1
    assert summary["parts"]["train"]["empty"] == 2


def test_duplicates_of_pairs(tmp_path):
    shifted = ("one", " twothree", 0)  # the same characters in a row as those of the first pair
    rows = [*ROWS, ROWS[0], shifted]
    _, summary = prepared(tmp_path, rows, [("one two", "unheard", 0), ("other", "three", 1), ROWS[1]])
    assert summary["splits"]["train"]["duplicate_texts"] == 1
    assert summary["shared_texts"]["test in train"] == 1


def test_unlabelled_test_split(tmp_path):
    without, with_nonsense = [row[:2] for row in ROWS], [(*row[:2], -1) for row in ROWS]
    for number, test in enumerate((without, with_nonsense)):
        folder = tmp_path / str(number)
        folder.mkdir()
        frames, summary = prepared(folder, test=test, split={"test_labels": False})
        assert frames["test"]["label"].isna().all()
        assert frames["test"]["text"].tolist() == [row[0] for row in ROWS]
        assert summary["splits"]["test"]["labels"] == {"no": 0, "yes": 0}
        assert summary["splits"]["train"]["labels"] == {"no": 2, "yes": 2}


def test_labels_missing(tmp_path):
    with pytest.raises(DataError):
        prepared(tmp_path, test=[(*row[:2], -1) for row in ROWS])


def test_splits_of_numbers(tmp_path):
    rows = [(f"one {number}", f"two {number}", number / 10) for number in range(40)]
    path = written(tmp_path, "parquet", rows)
    settings = {"text": "first", "text_pair": "second", "label_range": [0, 5]}
    prepare_dataset({"all": [path]}, tmp_path / "prepared", Preparation.model_validate(settings))
    sizes = {part: len(pd.read_parquet(tmp_path / "prepared" / f"{part}.parquet")) for part in PARTS}
    assert sizes == {"train": 32, "validation": 4, "test": 4}
    assert pq.read_schema(tmp_path / "prepared" / "train.parquet").field("label").type == pa.float64()


@pytest.fixture
def words(tmp_path):
    """A tokeniser of whole words."""
    return train_words(tmp_path / "words", [" ".join(WORDS)])


def test_pair_with_segments(words):
    ids, types = encode_cut_pairs(words, [("aa ba", "ca")], 16)
    assert words.backend.convert_ids_to_tokens(ids[0]) == ["[CLS]", "aa", "ba", "[SEP]", "ca", "[SEP]"]
    assert types == [[0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(20, 2, (5, 2)), (2, 20, (2, 5)), (20, 20, (3, 4)), (3, 3, (3, 3))]
)
def test_longer_text_cut_first(words, first, second, kept):
    (ids,), (types,) = encode_cut_pairs(words, [(" ".join(WORDS[:first]), " ".join(WORDS[:second]))], 10)
    sizes = (len(ids) - sum(types) - 2, sum(types) - 1)
    assert sizes == kept
    tokens = words.backend.convert_ids_to_tokens(ids)
    assert tokens[1 : 1 + sizes[0]] == WORDS[: sizes[0]]


def tokenised(folder, tokenizer, rows, labels, max_tokens=8, separately=False):
    """Return the splits of pairs; those of test have no labels."""
    folder.mkdir(exist_ok=True)
    sources = {}
    for split in PARTS:
        known = labels if split != "test" else [None] * len(labels)
        columns = {"id": [str(number) for number in range(len(rows))], "text": [first for first, _ in rows]}
        kind = pa.float64() if isinstance(labels[0], float) else pa.int64()
        columns |= {"label": pa.array(known, kind), "text_pair": [second for _, second in rows]}
        pq.write_table(pa.table(columns), folder / f"{split}.parquet")
        sources[split] = folder / f"{split}.parquet"
    tokenize_dataset(
        sources,
        tokenizer,
        max_tokens=max_tokens,
        folder=folder / "tokens",
        lengths=folder / "lengths.json",
        separately=separately,
    )
    return {split: load_from_disk(str(folder / "tokens" / split)) for split in PARTS}


PAIRS = [("aa ba ca", "da"), ("ea", "fa ae")]


def test_tokens_of_pairs_together(tmp_path, words):
    splits = tokenised(tmp_path / "together", words, PAIRS, [1, 0])
    assert splits["train"]["length"][:] == [7, 6]
    assert splits["train"]["token_type_ids"][:] == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    assert (has_labels(splits["train"]), has_labels(splits["test"])) == (True, False)
    batch = ClassificationCollator(0)(TokenDataset(splits["train"]).__getitems__([0, 1]))
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, 0]]
    assert ClassificationCollator(0)(TokenDataset(splits["test"]).__getitems__([0, 1]))["labels"].tolist() == [
        -100,
        -100,
    ]


def test_tokens_of_pairs_separately(tmp_path, words):
    long = [(" ".join(WORDS), "aa"), *PAIRS]
    splits = tokenised(tmp_path / "apart", words, long, [1, 0, 1], max_tokens=5, separately=True)
    alone = [words.encode_ragged([text for text, _ in long], 5), words.encode_ragged([text for _, text in long], 5)]
    assert [splits["train"]["input_ids"][:], splits["train"]["pair_ids"][:]] == alone
    for reach in range(6):
        longest = [max(len(first), len(second)) for first, second in zip(*alone, strict=True)]
        assert share_longer(splits["train"], reach) == sum(length > reach for length in longest) / len(longest)
    assert splits["train"]["length"][:] == [5 + 3, 5 + 3, 3 + 4]
    assert json.loads((tmp_path / "apart" / "lengths.json").read_text())["train"]["max_tokens"] == 10
    batch = ClassificationCollator(0)(TokenDataset(splits["train"]).__getitems__([0, 2]))
    assert batch["input_ids"].shape == (2, 5)
    assert batch["pair_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_batches_of_numbers(tmp_path, words):
    splits = tokenised(tmp_path / "numbers", words, PAIRS, [2.5, 0.0])
    batch = ClassificationCollator(0, "number")(TokenDataset(splits["train"]).__getitems__([0, 1]))
    assert batch["labels"].tolist() == [2.5, 0.0]
    assert batch["labels"].dtype == torch.float32
    assert ClassificationCollator(0, "number")(TokenDataset(splits["test"]).__getitems__([0]))["labels"].isnan().all()


def test_texts_of_a_trained_tokeniser(tmp_path, words):
    tokenised(tmp_path / "both", words, PAIRS, [1, 0])
    assert list(StoredTexts([tmp_path / "both" / "train.parquet"])) == ["aa ba ca", "da", "ea", "fa ae"]
