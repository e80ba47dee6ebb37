"""Texts as tensors: the same ids, masks and labels that the pipeline's batches of stored tokens hold."""

import numpy as np
import pandas as pd
import pytest
import torch

from lib.core.errors import ConfigError, DataError
from lib.preparing.settings.tokenizer import Tokenizer
from lib.tokens.batches import ClassificationCollator
from lib.tokens.encoding import encode
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
        encode(frame["text"], folder / "tokenizer", max_tokens, frame["label"]),
        encode(TEXTS, tokenizer, max_tokens, LABELS),
    ):
        assert set(found) == set(expected) == {"input_ids", "attention_mask", "labels"}
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert all(found[name].dtype == torch.int64 for name in found)
    assert found["attention_mask"].sum(dim=1).max() == found["input_ids"].shape[1] <= max_tokens


def test_a_model_reads_them_as_they_are(folder):
    from encoder_cases import EncoderForSequenceClassification, build

    vocabulary = len(TextTokenizer.load(folder / "tokenizer").backend)
    model = build(EncoderForSequenceClassification, vocab_size=vocabulary, num_labels=3)
    batch = encode(TEXTS[:4], folder / "tokenizer", 20, np.array(LABELS[:4]))
    assert model(**batch).loss.isfinite()
    batch.pop("labels")
    assert model(**batch).logits.shape == (4, 3)


def test_without_labels_there_are_none(folder):
    assert set(encode(TEXTS[:2], folder / "tokenizer", 8)) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ("a text", {}, DataError, "several texts|single"),
        (["a", None], {}, DataError, "number 1 is None"),
        (["a", "b"], {"labels": [1]}, DataError, "1.* for 2 texts"),
        (["a", "b"], {"labels": [1.5, 0]}, DataError, "whole number per text"),
        (["a"], {"max_tokens": 1}, ConfigError, "max_tokens = 1"),
    ],
)
def test_refusals(folder, texts, options, error, message):
    with pytest.raises(error, match=message):
        encode(texts, folder / "tokenizer", **{"max_tokens": 8} | options)
