"""The rows that a table of embeddings needs for the vocabulary of a tokeniser."""

from typing import Any


def rows(tokenizer: Any) -> int:
    """Return one more than the highest id, which exceeds the number of tokens where ids have gaps.

    Args:
        tokenizer: tokenizer of transformers.
    """
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values(), default=-1))
