"""A local task: the label of every word is the greatest number at most `reach` words away, its own included.

It needs nothing but near words, and asks the same at every place and in both directions: so a model that has learnt it
at some lengths can do it at any other, unless its positions fail there. This is its purpose: `group` is the length.
Small numbers are drawn more often, just so that every label is equally frequent where a word has all its neighbours;
otherwise, always answering the greatest number would often be right. The word itself is its label in three of ten
cases.
"""

import random
from collections.abc import Iterator

from pydantic import Field

from lib.core.settings import Size, SizeOrZero, check, repeats
from lib.preparing import toys

FILES = toys.FILES


class Options(toys.ToyOptions):
    """Sequences of random numbers, each to be replaced by the greatest one nearby."""

    symbols: Size = Field(10, ge=2)
    """Different symbols, which are the classes: the numbers from 0."""
    reach: SizeOrZero = 2
    """Number of words on either side that are features."""
    lengths: list[Size] = Field(min_length=1)
    """Words of a document, which are the groups; equally frequent in every split."""

    @check
    def _lengths_are_distinct(self) -> Iterator[str]:
        yield from repeats("lengths", self.lengths)


def greatest_nearby(numbers: list[int], reach: int) -> list[int]:
    """Return for every number the greatest one at most `reach` places away."""
    return [max(numbers[max(0, place - reach) : place + reach + 1]) for place in range(len(numbers))]


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, `label` per word, and the length as `group`."""
    words = [str(symbol) for symbol in range(options.symbols)]
    # The greatest of 2 * reach + 1 numbers is at most k with the probability (k + 1) / symbols.
    shares = [((symbol + 1) / options.symbols) ** (1 / (2 * options.reach + 1)) for symbol in range(options.symbols)]
    sizes = options.sizes(documents)
    rows: list[toys.Row] = []
    for length in toys.evenly(options.lengths, sizes, rng):
        numbers = rng.choices(range(options.symbols), cum_weights=shares, k=length)
        text = " ".join([words[number] for number in numbers])
        rows.append((text, greatest_nearby(numbers, options.reach), length))
    return toys.tables(rows, sizes)
