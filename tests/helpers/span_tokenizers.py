"""Tokenisers of texts in which a character is several tokens, or none, for tests of spans."""

# ruff: noqa: RUF001 - letters of several scripts that look alike are what is tested

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_wordpiece

TEXTS = [
    "Об'єкт під’їзду обʼєднали: мати й їжак, Київ — ґанок!",
    "Разоблачение века 😀😀 поддержите нас 🇺🇦 сейчас же, друзья.",
    "The cats sat on the café mat שלום עולם مرحبا بالعالم 𝕏𝕐 e\u0301te\u0301.",
]


def byte_level():
    """Byte-level BPE, as decoders have it: a character may be several tokens, and nothing is normalised."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False))
    return TextTokenizer(PreTrainedTokenizerFast(tokenizer_object=core))


@pytest.fixture(scope="module", params=["wordpiece", "byte-level"])
def span_tokenizer(request, tmp_path_factory):
    if request.param == "byte-level":
        return byte_level()
    return train_wordpiece(tmp_path_factory.mktemp("spans") / "tokenizer", TEXTS, 150, 1)
