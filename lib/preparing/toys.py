"""Shared by the generators of toy tasks: published splits of given sizes, and tables of rows.

A text is a line of words. `label` is a number per document, or a list with one number per word (`IGNORED` = none), or a
list of spans.
"""

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from lib.core.settings import PositiveInt
from lib.preparing.generators import GeneratorOptions

SPLITS = ("train", "validation", "test")
FILES = {part: [f"{part}.parquet"] for part in SPLITS}

Value = TypeVar("Value")
Label = int | list[int] | list[list[int]]
Row = tuple[str, Label] | tuple[str, Label, int]
"""Text, label, and group if the task has groups."""


class ToyOptions(GeneratorOptions):
    """Sizes of the splits; the rest is for training."""

    validation: PositiveInt
    """Documents for validation."""
    test: PositiveInt
    """Documents for the test."""

    def obstacles(self, documents: int) -> Iterator[str]:
        """See `lib.preparing.generators.GeneratorOptions.obstacles`."""
        held_out = f"{self.validation:,} for validation and {self.test:,} for the test"
        if documents <= self.validation + self.test:
            yield f"{documents:,} leave none for training after {held_out}. Raise it, or lower options.test"

    def sizes(self, documents: int) -> list[int]:
        """Return the documents of each of `SPLITS`."""
        return [documents - self.validation - self.test, self.validation, self.test]


def evenly(values: Sequence[Value], sizes: Sequence[int], rng: random.Random) -> list[Value]:
    """Return a value for every document, the splits one after the other.

    In every split, each of `values` comes equally often (the first ones once more where the size is no multiple), in
    random order.
    """
    drawn = []
    for size in sizes:
        of_split = [values[number % len(values)] for number in range(size)]
        rng.shuffle(of_split)
        drawn += of_split
    return drawn


def tables(rows: Sequence[Row], sizes: Sequence[int]) -> dict[str, dict[str, list]]:
    """Return the columns of every file of `FILES`: the first `sizes[0]` rows for training, and so on."""
    made, start = {}, 0
    for (name,), size in zip(FILES.values(), sizes, strict=True):
        columns = zip(*rows[start : start + size], strict=True)
        made[name] = dict(zip(("text", "label", "group"), map(list, columns), strict=False))
        start += size
    return made
