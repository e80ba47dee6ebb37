"""Which share of test documents training has as well, against a plain comparison of texts and of tokens."""

import random

import pandas as pd
import pytest

from lib.tokens.stored import shared_documents
from lib.tokens.tokenizing import tokenize_dataset
from lib.tokens.vocabularies import train_wordpiece

WORDS = ["the", "cat", "sat", "on", "mat"]


@pytest.fixture
def splits(tmp_path):
    """Short texts, many of which occur in several splits."""
    draws, texts, files = random.Random(1), {}, {}
    for split, count in {"train": 80, "validation": 40, "test": 50}.items():
        texts[split] = [" ".join(draws.choices(WORDS, k=3)) for _ in range(count)]
        files[split] = tmp_path / f"{split}.parquet"
        ids = [f"{split}-{number}" for number in range(count)]
        pd.DataFrame({"id": ids, "text": texts[split], "label": 0}).to_parquet(files[split])
    return texts, files


def share(training, documents):
    return sum(document in training for document in documents) / len(documents)


def test_shared_texts(splits):
    texts, files = splits
    found = shared_documents(files)
    assert found == {split: share(texts["train"], texts[split]) for split in ("validation", "test")}
    assert 0 < found["test"] < 1


def test_shared_tokens(splits, tmp_path):
    max_tokens = 4
    texts, files = splits
    tokenizer = train_wordpiece(tmp_path / "tokenizer", texts["train"])
    lengths = tmp_path / "lengths.json"
    tokenize_dataset(files, tokenizer, max_tokens=max_tokens, folder=tmp_path / "tokens", lengths=lengths)
    read = {split: [" ".join(text.split()[: max_tokens - 2]) for text in found] for split, found in texts.items()}
    found = shared_documents({split: tmp_path / "tokens" / split for split in files})
    assert found == {split: share(read["train"], read[split]) for split in ("validation", "test")}


def test_shared_pairs(tmp_path):
    rows = {"train": [("a", "b"), ("c", "d")], "test": [("a", "b"), ("a", "d"), ("ab", "")]}
    for split, pairs in rows.items():
        frame = pd.DataFrame(pairs, columns=["text", "text_pair"])
        frame.assign(id=[str(number) for number in range(len(pairs))]).to_parquet(tmp_path / f"{split}.parquet")
    assert shared_documents({split: tmp_path / f"{split}.parquet" for split in rows}) == {"test": 1 / 3}
