"""Associative recall: pairs of key and value, then every key once more, whose label is the number of its value.

After the multi-query associative recall (MQAR) of S. Arora et al., "Zoology: Measuring and Improving Recall in
Efficient Language Models" (2023). Here all queries follow all pairs, in random order and without filler between, and
`group` is the number of pairs. The value of a key is drawn for each document, so that nothing can be
learnt by heart; a guess among the values that occur is right in one of P cases, for P pairs. What makes it
hard is that all pairs must be kept until the queries: a state of fixed size fills up, attention looks them up.
"""

import random
from collections.abc import Iterator

from pydantic import Field

from lib.core.labels import IGNORED
from lib.core.settings import Size, check, repeats
from lib.preparing import toys

FILES = toys.FILES


class Options(toys.ToyOptions):
    """Keys with values, and the keys once more."""

    keys: Size = 32
    """Different keys: k0, k1 and so on."""
    values: Size = Field(32, ge=2)
    """Different values, which are the classes: v0, v1 and so on."""
    pairs: list[Size] = Field([4, 8, 16], min_length=1)
    """Pairs of a document, which are the groups; equally frequent in every split."""

    @check
    def _pairs_are_distinct(self) -> Iterator[str]:
        yield from repeats("pairs", self.pairs)

    @check
    def _there_are_enough_keys(self) -> Iterator[str]:
        if max(self.pairs) > self.keys:
            yield (
                f"pairs: {max(self.pairs)} pairs need as many distinct keys, but there are {self.keys}. Lower it, or "
                "raise keys"
            )


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, `label` per word, and the number of pairs as `group`."""
    sizes = options.sizes(documents)
    rows: list[toys.Row] = []
    for pairs in toys.evenly(options.pairs, sizes, rng):
        value_of = dict(
            zip(rng.sample(range(options.keys), pairs), rng.choices(range(options.values), k=pairs), strict=True)
        )
        queried = rng.sample(list(value_of), pairs)
        said = [word for key, value in value_of.items() for word in (f"k{key}", f"v{value}")]
        text = " ".join([*said, *(f"k{key}" for key in queried)])
        rows.append((text, [IGNORED] * len(said) + [value_of[key] for key in queried], pairs))
    return toys.tables(rows, sizes)
