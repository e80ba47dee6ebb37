"""Recall over a distance: the label of the last word, `?`, is the first word.

Everything between is drawn from the same symbols, so nothing but its place marks the word that counts. Counting helps
little: with ten symbols the most frequent one of a text is the first in 37 % of the texts at a distance of 5, 28 % at
10, 18 % at 50 and 12 % at 500. The distance is the number of steps over which a recurrent network has to carry the
symbol, and its gradient; attention takes one step whatever the distance.
"""

import random
from collections.abc import Iterator

from pydantic import Field

from lib.core.labels import IGNORED
from lib.core.settings import Size, check, repeats
from lib.preparing import toys

FILES = toys.FILES

QUERY = "?"


class Options(toys.ToyOptions):
    """The first symbol, recalled at the end."""

    symbols: Size = Field(10, ge=2)
    """Different symbols, which are the classes: the numbers from 0."""
    distances: list[Size] = Field([5, 10, 20, 50, 100, 200, 500], min_length=1)
    """Words from the first symbol to the query, which are the groups; equally frequent in every split."""

    @check
    def _distances_are_distinct(self) -> Iterator[str]:
        yield from repeats("distances", self.distances)


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, `label` per word, and the distance as `group`."""
    words = [str(symbol) for symbol in range(options.symbols)]
    sizes = options.sizes(documents)
    rows: list[toys.Row] = []
    for distance in toys.evenly(options.distances, sizes, rng):
        symbols = rng.choices(range(options.symbols), k=distance)
        text = " ".join([*(words[symbol] for symbol in symbols), QUERY])
        rows.append((text, [IGNORED] * distance + symbols[:1], distance))
    return toys.tables(rows, sizes)
