"""Fuzzy in-context recall after MAD: keys and values are of one or several adjacent words, and nothing separates them.

A text lists pairs of key and value. Then it repeats keys, each followed by as many question marks as its value has
words, whose labels are these words. To answer, a model must find where a key of several words was, and where its value
ends. A question mark hides the answer, which the original has as input at the next word: a model that reads in both
directions would only have to look there.

Source:
    M. Poli et al. 2024, "Mechanistic Design and Scaling of Hybrid Architectures", section 3, and
    `generate_fuzzy_in_context_recall_instance` of github.com/athms/mad-lab (`mad/data/instances.py`): keys and values
    have words of their own, distinct within a key or value, and 1 to `longest` of them. There pairs are drawn again and
    again, and a value is asked for wherever its key has come before; tests have the longest keys alone. Here every key
    comes once before the first question, a text asks for `asked` of its pairs, and all splits are drawn alike. Blanks
    fill a text at its end, there at its beginning.
"""

import random
from collections.abc import Iterator

from pydantic import Field

from lib.core.labels import IGNORED
from lib.core.settings import Size, check
from lib.preparing import toys

FILES = toys.FILES

BLANK, ASKED = "b", "?"


class Options(toys.ToyOptions):
    """Pairs of key and value, each of one or several words, and queries behind them."""

    vocabulary: Size = Field(16, ge=4)
    """Different words of keys (k0, k1 and so on) and of values (v0, v1 and so on), half each; even. Words of values are
    the classes."""
    longest: Size = 3
    """Most words of a key, and of a value."""
    pairs: Size = 8
    """Pairs of a text."""
    asked: Size = 4
    """Keys that it repeats."""

    @property
    def length(self) -> int:
        """Words of a text."""
        return 2 * self.longest * (self.pairs + self.asked)

    @check
    def _keys_suffice(self) -> Iterator[str]:
        if max(self.longest, self.pairs) > self.vocabulary // 2:
            yield f"vocabulary = {self.vocabulary}: half of it is less than pairs or longest. Raise it"
        if self.asked > self.pairs:
            yield f"asked = {self.asked}, but a text has {self.pairs} pairs. Lower it"


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, and `label` per word."""
    return toys.tables([_row(rng, options) for _ in range(documents)], options.sizes(documents))


def _row(rng: random.Random, options: Options) -> toys.Row:
    """Return one text and its labels."""
    pairs: dict[tuple[int, ...], tuple[int, ...]] = {}
    while len(pairs) < options.pairs:
        key, value = _motif(rng, options), _motif(rng, options)
        pairs.setdefault(key, value)
    words, labels = list[str](), list[int]()
    for key, value in pairs.items():
        words += [*(f"k{each}" for each in key), *(f"v{each}" for each in value)]
    labels += [IGNORED] * len(words)
    for key, value in rng.sample(list(pairs.items()), options.asked):
        words += [*(f"k{each}" for each in key), *[ASKED] * len(value)]
        labels += [*[IGNORED] * len(key), *value]
    blanks = options.length - len(words)
    return " ".join([*words, *[BLANK] * blanks]), [*labels, *[IGNORED] * blanks]


def _motif(rng: random.Random, options: Options) -> tuple[int, ...]:
    """Return the numbers of the words of a key or of a value."""
    return tuple(rng.sample(range(options.vocabulary // 2), rng.randint(1, options.longest)))
