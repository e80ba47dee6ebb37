"""Reversal: every word's label is the word at the mirrored place.

A task of positions only: a word is independent of its label, and counting the words says no more than how
frequent each label is, which is chance. With ten symbols and eight places nearly every sequence of the test is new.
"""

import random

from pydantic import Field

from lib.core.settings import Size
from lib.preparing import toys

FILES = toys.FILES


class Options(toys.ToyOptions):
    """Sequences of random numbers, to be reversed."""

    symbols: Size = Field(10, ge=2)
    """Different symbols, which are the classes: the numbers from 0."""
    length: Size = 8
    """Symbols of a sequence."""


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, and `label` per word."""
    words = [str(symbol) for symbol in range(options.symbols)]
    rows: list[toys.Row] = []
    for _ in range(documents):
        symbols = rng.choices(range(options.symbols), k=options.length)
        rows.append((" ".join([words[symbol] for symbol in symbols]), symbols[::-1]))
    return toys.tables(rows, options.sizes(documents))
