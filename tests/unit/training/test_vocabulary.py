"""Weights of other tokens than the run's are refused."""

import pytest

from lib.core.errors import RunError
from lib.tokens.vocabularies import from_vocabulary
from lib.training.predictor import check_vocabulary

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]


@pytest.fixture
def tokenizer(tmp_path):
    def make(name, tokens):
        return from_vocabulary(dict(zip(tokens, range(len(tokens)), strict=True)), tmp_path / name).backend

    return make


def test_same_tokens_and_more(tokenizer, tmp_path):
    tokenizer("published", TOKENS)
    check_vocabulary(tokenizer("same", TOKENS), tmp_path / "published")
    check_vocabulary(tokenizer("more", [*TOKENS, "plot"]), tmp_path / "published")
    check_vocabulary(tokenizer("unknown", TOKENS), tmp_path)


def test_number_that_stands_for_another_token(tokenizer, tmp_path):
    tokenizer("published", TOKENS)
    swapped = [*TOKENS[:5], "bad", "good", "film"]
    with pytest.raises(RunError, match="token 5 is 'good' there and 'bad' here"):
        check_vocabulary(tokenizer("swapped", swapped), tmp_path / "published")
