"""Sentinel tokens, which replace removed spans of a text."""

from typing import Any


def sentinel(number: int) -> str:
    """Return the sentinel token of a number, counted from 0, as T5's vocabulary spells it."""
    return f"<extra_id_{number}>"


def sentinel_ids(tokenizer: Any) -> list[int]:
    """Return the ids of the sentinel tokens that a tokeniser has, from number 0 on, without a gap.

    Args:
        tokenizer: of transformers.
    """
    vocabulary = tokenizer.get_vocab()
    found: list[int] = []
    while (number := vocabulary.get(sentinel(len(found)))) is not None:
        found.append(number)
    return found
