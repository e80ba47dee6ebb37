"""The special tokens that a tokeniser puts around every text, such as [CLS] before and [SEP] after it."""

import itertools
from typing import Any


def enclosing(tokenizer: Any) -> tuple[int, int]:
    """Return how many tokens a tokeniser puts before a text, and how many after it.

    Args:
        tokenizer: fast tokenizer of transformers.
    """
    # Some vocabularies lack a token for "a", and some tokens give no token again as a text.
    texts = itertools.chain(["a"], (tokenizer.decode([number]) for number in sorted(tokenizer.get_vocab().values())))
    for text in texts:
        of_text = [place == 0 for place in tokenizer(text).sequence_ids(0)]
        if True in of_text:
            return of_text.index(True), of_text[::-1].index(True)
    return len(tokenizer("")["input_ids"]), 0
