"""Words that tokens themselves tell apart."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lib.core.errors import ConfigError
from lib.tokens.masking import word_edges
from lib.tokens.tokenizer import SPECIAL_TOKENS
from lib.tokens.vocabularies import train_wordpiece

TEXT = "the cats sat on the mat, naïve_cafés in the town are so-called"
LINES = "the end.\n\nthe cats  sat\ton the\nmat "


def trained(core, **options):
    options |= {"vocab_size": 300, "special_tokens": ["<s>", "</s>"], "show_progress": False}
    trainer = trainers.UnigramTrainer if isinstance(core.model, models.Unigram) else trainers.BpeTrainer
    core.train_from_iterator([TEXT, LINES] if options.get("initial_alphabet") else [TEXT], trainer(**options))
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")


def byte_level():
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return trained(core, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def sentencepiece():
    """As Gemma's, whose tokens keep spaces as ▁ and line breaks as they are."""
    core = Tokenizer(models.BPE())
    core.normalizer = normalizers.Replace(" ", "▁")
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    core.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    return trained(core)


def metaspace():
    core = Tokenizer(models.Unigram())
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return trained(core)


def words(tokenizer, text):
    """Return the tokens of `text`, grouped by word."""
    special = np.isin(np.arange(len(tokenizer)), tokenizer.all_special_ids)
    edges = word_edges(tokenizer, special)
    ids = tokenizer(text)["input_ids"]
    groups = []
    for place, number in enumerate(ids):
        if not place or edges.begins[number] or edges.ends[ids[place - 1]]:
            groups.append([])
        groups[-1].append(number)
    return [tokenizer.decode(group).strip() for group in groups]


@pytest.mark.parametrize("make", [byte_level, sentencepiece, metaspace])
def test_edges_of_tokens_with_spaces(make):
    tokenizer = make()
    text = f"{TEXT} worn-down"
    assert [word for word in words(tokenizer, text) if word] == text.split()  # a space may be a word of its own
    assert len(tokenizer.tokenize(text)) > len(text.split()) + 2


def test_edges_of_line_breaks():
    found = words(byte_level(), LINES)
    assert [word for word in found if word] == LINES.split()


def test_edges_of_wordpiece(tmp_path):
    tokenizer = train_wordpiece(tmp_path / "t", ["cat cat mat mat so called"], 40).backend
    assert tokenizer.tokenize("tam") == ["t", "##a", "##m"]
    found = words(tokenizer, "cat so-called, tam. [UNK] cat")
    assert found == ["[CLS]", "cat", "so", "[UNK]", "called", "[UNK]", "tam", "[UNK]", "[UNK]", "cat", "[SEP]"]


def test_edges_that_tokens_do_not_tell():
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Whitespace()  # spaces are lost
    tokenizer = trained(core)
    with pytest.raises(ConfigError, match="masking = words"):
        word_edges(tokenizer, np.zeros(len(tokenizer), dtype=bool))


def test_edges_of_special_tokens(tmp_path):
    tokenizer = train_wordpiece(tmp_path / "t", ["cat mat"], 40).backend
    is_special = np.isin(np.arange(len(tokenizer)), range(len(SPECIAL_TOKENS)))
    begins, ends = word_edges(tokenizer, is_special)
    assert begins[is_special].all()
    assert ends[is_special].all()
    assert not ends[~is_special].any()
