"""Cost of tokenising: texts that are cut before, compared with complete texts."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from lib.core.errors import RunError
from lib.data.vocabularies import from_vocabulary

BATCH = 512
"""Texts that are tokenised at a time."""


def tokenizer_cost(texts: Sequence[str], vocabulary: str | Path, max_tokens: int) -> pd.DataFrame:
    """Return the cost of tokenising `texts`, one row per way: `whole`, and `cut` to the characters that can matter.

    Args:
        texts: documents.
        vocabulary: path of a vocab.txt.
        max_tokens: tokens to keep of each text.

    Returns:
        Columns `texts`, `max_tokens` and `megabytes_per_second` (of text).

    Raises:
        RunError: the ids of the two ways differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = from_vocabulary(vocabulary, f"{folder}/tokenizer")
    ways: dict[str, Callable[[Sequence[str]], list[list[int]]]] = {
        "whole": lambda batch: tokenizer.backend(batch, truncation=True, max_length=max_tokens)["input_ids"],
        "cut": lambda batch: tokenizer.encode_ragged(batch, max_tokens),
    }
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rows, found = [], []
    for name, encode in ways.items():
        start = time.perf_counter()
        found.append([row for i in range(0, len(texts), BATCH) for row in encode(texts[i : i + BATCH])])
        rows.append((name, max_tokens, megabytes / (time.perf_counter() - start)))
    if found[0] != found[1]:
        raise RunError("the ids differ from those of the whole texts; expected them equal. Report this as a bug.")
    return pd.DataFrame(rows, columns=["texts", "max_tokens", "megabytes_per_second"])
