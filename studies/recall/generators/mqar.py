"""Multi-query associative recall (MQAR) as Zoology publishes it: pairs of key and value, later the keys once more.

A text has `length` words: first its pairs, then blanks, among which every key stands once more, as a query. The label
of a query is the number of its value; nothing else has a label. Most queries stand near the pairs: of the places that
are left, 2 words apart, place x = 1, 2, ... is drawn with a probability proportional to x^(power - 1).

The answer stands nowhere behind the pairs, so an encoder that reads in both directions sees no more of it than a
language model does.

Source:
    S. Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language Models", section 4 and
    `multiquery_ar` of github.com/HazyResearch/zoology (`zoology/data/associative_recall.py`), whose inputs are the
    same: keys are the first half of the vocabulary without its word 0, the blank; values are the second half; keys and
    values of a text are distinct. Two things differ. Its answer is one of all words, here it is one of the values. And
    its random words between queries (`random_non_queries`) may be keys of the text, here they are not, so that every
    key stands twice in a text.
"""

import random
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from lib.core.labels import IGNORED
from lib.core.settings import PositiveFloat, Size, check, repeats
from lib.preparing import toys

FILES = toys.FILES

BLANK = "b"


class Options(toys.ToyOptions):
    """Pairs of key and value, and queries behind them."""

    vocabulary: Size = Field(8192, ge=8)
    """Different words: a blank, keys (k1, k2 and so on) up to half of them, and as values (v0, v1 and so on), which are
    the classes, the other half; even."""
    length: Size = 64
    """Words of a text; even."""
    pairs: list[Size] = Field([4], min_length=1)
    """Pairs of a text, which are the groups; equally frequent in every split. A text has room for a quarter of its
    length."""
    power: PositiveFloat = 0.01
    """Exponent of the places of queries: 1 = all places alike, less = more often near the pairs."""
    filler: Literal["blank", "random"] = "blank"
    """Words between the queries: `blank`, as in Zoology's figure 2, or `random`, any of the vocabulary that are no keys
    of the text."""

    @property
    def values(self) -> int:
        """Number of values, which are the classes."""
        return self.vocabulary // 2

    @check
    def _pairs_are_distinct(self) -> Iterator[str]:
        yield from repeats("pairs", self.pairs)

    @check
    def _sizes_are_even(self) -> Iterator[str]:
        for name in ("vocabulary", "length"):
            if (size := getattr(self, name)) % 2:
                yield f"{name} = {size} is odd; expected an even number. Use {size + 1}"

    @check
    def _everything_has_room(self) -> Iterator[str]:
        most, keys = max(self.pairs), self.vocabulary // 2 - 1
        if 4 * most > self.length:
            yield f"pairs: {most} pairs and their queries need {4 * most} words, but length = {self.length}. Raise it"
        if most > keys:
            yield (
                f"pairs: {most} pairs need as many distinct keys, but of vocabulary = {self.vocabulary} {keys} are "
                "keys. Lower them, or raise vocabulary"
            )


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, `label` per word, and the number of pairs as `group`."""
    sizes = options.sizes(documents)
    return toys.tables([_row(pairs, rng, options) for pairs in toys.evenly(options.pairs, sizes, rng)], sizes)


def _row(pairs: int, rng: random.Random, options: Options) -> toys.Row:
    """Return one text of that many pairs, its labels, and the pairs."""
    keys = rng.sample(range(1, options.values), pairs)
    values = rng.sample(range(options.values), pairs)
    words = [word for key, value in zip(keys, values, strict=True) for word in (f"k{key}", f"v{value}")]
    words += [_filler(set(keys), rng, options) for _ in range(options.length - 2 * pairs)]
    labels = [IGNORED] * options.length
    for key, value, place in zip(keys, values, _places(pairs, rng, options), strict=True):
        words[place], labels[place] = f"k{key}", value
    return " ".join(words), labels, pairs


def _places(pairs: int, rng: random.Random, options: Options) -> list[int]:
    """Return where the queries stand, in the order of their keys: drawn one after the other, none twice.

    Source: Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir". The first to ring of clocks with
    rates as weights is each time drawn with a probability proportional to its weight among those that are left.
    """
    room = (options.length - 2 * pairs) // 2
    rings = [rng.expovariate(place ** (options.power - 1)) for place in range(1, room + 1)]
    return [2 * (pairs + place) for place in sorted(range(room), key=rings.__getitem__)[:pairs]]


def _filler(keys: set[int], rng: random.Random, options: Options) -> str:
    """Return a word to put between queries."""
    if options.filler == "blank":
        return BLANK
    while (number := rng.randrange(options.vocabulary)) in keys:
        pass
    if number == 0:
        return BLANK
    return f"k{number}" if number < options.values else f"v{number - options.values}"
