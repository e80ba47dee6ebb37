"""Texts as tensors: the same ids, masks and labels that the pipeline's batches of stored tokens hold."""

import pandas as pd
import pytest
import torch

from lib.preparing.settings.tokenizer import Tokenizer
from lib.tokens.batches import ClassificationCollator
from lib.tokens.encoding import encode
from lib.tokens.stored import TokenDataset, load_tokens
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset, train_tokenizer

TEXTS = [f"The {'very ' * (i % 9)}old café,\nnumber {i}, sat." for i in range(30)]
LABELS = [i % 3 for i in range(30)]


@pytest.fixture(scope="module", params=["wordpiece", "bpe"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    settings = Tokenizer(source="trained", algorithm=request.param, vocab_size=300)
    train_tokenizer(TEXTS[:20], settings, folder / "tokenizer")
    return folder


def test_encoding_against_the_pipeline(folder, tmp_path):
    max_tokens = 8
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
