"""The special tokens that a tokeniser puts around every text, such as [CLS] before and [SEP] after it."""

from typing import Any


def enclosing(tokenizer: Any) -> tuple[int, int]:
    """Return how many tokens a tokeniser puts before a text, and how many after it.

    Args:
        tokenizer: tokenizer of transformers.
    """
    whole, bare = (tokenizer("a", add_special_tokens=added)["input_ids"] for added in (True, False))
    before = next(place for place in range(len(whole)) if whole[place : place + len(bare)] == bare)
    return before, len(whole) - len(bare) - before
