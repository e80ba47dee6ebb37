"""How many special tokens enclose a text, whatever the vocabulary holds."""

import itertools

import pytest
from tokenizers import Tokenizer, models, processors
from transformers import PreTrainedTokenizerFast

from lib.core.enclosing import enclosing

SPECIAL = {"[CLS]": 0, "[SEP]": 1, "[PAD]": 2}
BASES = SPECIAL | {letter: number for number, letter in enumerate("ACGT", 3)}
VOCABULARIES = {
    "bases, others dropped": lambda: Tokenizer(models.BPE(BASES, [])),
    "a letter among others": lambda: Tokenizer(models.BPE(BASES | {"a": 7}, [])),
    "bases, others unknown": lambda: Tokenizer(models.WordLevel(BASES | {"[UNK]": 7}, unk_token="[UNK]")),
    "a token that is no text by itself": lambda: Tokenizer(
        models.BPE({"##x": 0} | {t: i + 1 for t, i in BASES.items()}, [])
    ),
}
TEMPLATES = {
    "$A": (0, 0),
    "[CLS] $A": (1, 0),
    "$A [SEP]": (0, 1),
    "[CLS] $A [SEP]": (1, 1),
    "[CLS] [SEP] $A [SEP] [SEP] [CLS]": (2, 3),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_special_tokens_around_a_text_are_counted(vocabulary):
    for template, split in zip(TEMPLATES, itertools.cycle([True, False]), strict=False):
        around(VOCABULARIES[vocabulary](), template, split)


def around(core, template, split):
    named = [(token, core.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(single=template, pair=f"{template} $B", special_tokens=named)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", split_special_tokens=split
    )
    assert enclosing(tokenizer) == TEMPLATES[template]
    before, behind = TEMPLATES[template]
    whole, bare = (tokenizer("CAT", add_special_tokens=added)["input_ids"] for added in (True, False))
    assert whole[before : len(whole) - behind] == bare
