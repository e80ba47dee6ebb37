"""Texts as tensors: the same ids, masks and labels that the pipeline's batches of stored tokens hold."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from lib.core.errors import ConfigError, DataError
from lib.preparing.settings.tokenizer import Tokenizer
from lib.tokens.batches import ClassificationCollator
from lib.tokens.encoding import encode, encode_pandas
from lib.tokens.stored import TokenDataset, load_tokens
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset, train_tokenizer

TEXTS = [f"The {'very ' * (i % 9)}old café,\nnumber {i}, sat." for i in range(30)]
LABELS = [i % 3 for i in range(30)]


@pytest.fixture(scope="module", params=["wordpiece", "words", "bpe"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    settings = Tokenizer(source="trained", algorithm=request.param, vocab_size=300)
    train_tokenizer(TEXTS[:20], settings, folder / "tokenizer")
    return folder


@pytest.mark.parametrize("max_tokens", [3, 8, 100])
def test_tensors_are_those_of_the_batches_of_the_pipeline(folder, max_tokens, tmp_path):
    frame = pd.DataFrame({"id": [f"a{i}" for i in range(30)], "text": TEXTS, "label": LABELS})
    frame.to_parquet(tmp_path / "train.parquet", index=False)
    tokenizer = TextTokenizer.load(folder / "tokenizer")
    tokenize_dataset(
        {"train": tmp_path / "train.parquet"},
        tokenizer,
        max_tokens=max_tokens,
        folder=tmp_path / "tokens",
        lengths=tmp_path / "lengths.json",
    )
    stored = TokenDataset(load_tokens(tmp_path / "tokens" / "train"))
    expected = ClassificationCollator(tokenizer.backend.pad_token_id)([stored[i] for i in range(30)])
    for found in (
        encode_pandas(frame, folder / "tokenizer", max_tokens, label="label"),
        encode(TEXTS, tokenizer, max_tokens, LABELS),
    ):
        assert set(found) == set(expected) == {"input_ids", "attention_mask", "labels"}
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert all(found[name].dtype == torch.int64 for name in found)
    assert found["attention_mask"].sum(dim=1).max() == found["input_ids"].shape[1] <= max_tokens


def test_a_model_reads_them_as_they_are(folder):
    from encoder_cases import build

    from lib.backbones.encoder import EncoderForSequenceClassification

    vocabulary = len(TextTokenizer.load(folder / "tokenizer").backend)
    model = build(EncoderForSequenceClassification, vocab_size=vocabulary, num_labels=3)
    batch = encode(TEXTS[:4], folder / "tokenizer", 20, np.array(LABELS[:4]))
    assert model(**batch).loss.isfinite()
    batch.pop("labels")
    assert model(**batch).logits.shape == (4, 3)


def test_without_labels_there_are_none(folder):
    frame = pd.DataFrame({"review": TEXTS[:2]})
    assert set(encode_pandas(frame, folder / "tokenizer", 8, text="review")) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ("a text", {}, DataError, "several texts|single"),
        ([], {}, DataError, "there is none"),
        (["a", None], {}, DataError, "number 1 is None"),
        (["a", "b"], {"labels": [1]}, DataError, "1 of type int64 for 2 texts"),
        (["a", "b"], {"labels": ["yes", "no"]}, DataError, "whole number per text"),
        (["a", "b"], {"labels": [1, None]}, DataError, "whole number per text"),
        (["a"], {"max_tokens": 1}, ConfigError, "max_tokens = 1"),
    ],
)
def test_refusals(folder, texts, options, error, message):
    with pytest.raises(error, match=message):
        encode(texts, folder / "tokenizer", **{"max_tokens": 8} | options)


def test_columns_that_are_not_there_are_named(folder):
    message = "has no column text, class. Its columns are a, b"
    with pytest.raises(DataError, match=re.escape(message)):
        encode_pandas(pd.DataFrame({"a": [1], "b": [2]}), folder / "tokenizer", 8, label="class")
