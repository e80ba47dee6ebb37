"""Brackets: is a sequence of opening and closing ones balanced (1), or not (0)? Half of the documents are.

Whether it is depends on every bracket and on their order: at no place may more have been closed than opened. But random
sequences are an easy opponent. With ten pairs, who only counts both kinds is right for 91.9 % of the documents, and who
also looks at the first and the last bracket for 98.5 %; scores must be compared with these.

`as_published` makes the documents of the course notebook that the task is taken from, whose random half is drawn with
replacement, again whenever it is read, and called unbalanced unseen. With ten pairs 1.6 % of it is balanced all the
same, so that no model can be right for more than 99.2 %.
"""

import functools
import random
from collections.abc import Iterator
from math import comb

from lib.core.settings import Few, Size
from lib.preparing import toys

FILES = toys.FILES

_BRACKETS = str.maketrans("01", "()")


class Options(toys.ToyOptions):
    """Balanced and random sequences of brackets."""

    pairs: Size = 10
    """Number of pairs of brackets in a sequence."""
    as_published: bool = False
    """Draw random sequences with replacement and label each as unbalanced, even balanced ones; false = no sequence
    occurs twice, and every label is true."""
    passes: Few = 1
    """`as_published`: copies of each training document; random ones are drawn for each copy. One epoch then equals this
    many epochs of the notebook, which draws whenever it reads."""

    def obstacles(self, documents: int) -> Iterator[str]:
        """See `lib.preparing.generators.GeneratorOptions.obstacles`."""
        yield from super().obstacles(documents)
        # Of the unbalanced ones there are always more.
        if documents // 2 > (most := balanced_sequences(self.pairs)):
            yield (
                f"half of {documents:,} are {documents // 2:,} distinct balanced sequences, but with pairs = "
                f"{self.pairs} there are {most:,}. Lower it to {2 * most + 1:,}, or raise options.pairs"
            )


def balanced_sequences(pairs: int) -> int:
    """Return how many balanced sequences of that many pairs there are: a Catalan number."""
    return comb(2 * pairs, pairs) // (pairs + 1)


def balanced_share(pairs: int) -> float:
    """Return the share of all sequences of that many pairs of brackets that are balanced."""
    return balanced_sequences(pairs) / 4**pairs


def is_balanced(sequence: str) -> bool:
    """Whether every bracket of a sequence has its partner."""
    depth = 0
    for bracket in sequence:
        depth += 1 if bracket == "(" else -1
        if depth < 0:
            return False
    return depth == 0


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits, `text` and `label`; training is longer if there are several passes."""
    half, sizes = documents // 2, options.sizes(documents)
    balanced = [_balanced(options.pairs, rank) for rank in _ranks(balanced_sequences(options.pairs), half, rng)]
    if options.as_published:
        slots = [*balanced, *[None] * (documents - half)]
        rng.shuffle(slots)
        slots = slots[: sizes[0]] * options.passes + slots[sizes[0] :]
        sizes[0] *= options.passes
        sequences = [(slot or _any(options.pairs, rng), int(slot is not None)) for slot in slots]
    else:
        unbalanced: dict[str, None] = {}  # in the order drawn
        while len(unbalanced) < documents - half:
            if not is_balanced(drawn := _any(options.pairs, rng)):
                unbalanced[drawn] = None
        sequences = [(sequence, 1) for sequence in balanced] + [(sequence, 0) for sequence in unbalanced]
        rng.shuffle(sequences)
    return toys.tables([(" ".join(sequence), label) for sequence, label in sequences], sizes)


def _any(pairs: int, rng: random.Random) -> str:
    """Draw one of all sequences."""
    return f"{rng.getrandbits(2 * pairs):0{2 * pairs}b}".translate(_BRACKETS)


def _ranks(total: int, count: int, rng: random.Random) -> Iterator[int]:
    """Draw `count` distinct numbers below `total`, which may be larger than what `random.sample` takes.

    Source: R. Floyd in J. Bentley, "Programming Pearls: A Sample of Brilliance" (1987).
    """
    drawn: set[int] = set()
    for last in range(total - count, total):
        number = rng.randrange(last + 1)
        number = last if number in drawn else number
        drawn.add(number)
        yield number


def _balanced(pairs: int, rank: int) -> str:
    """Return the balanced sequence at `rank`, from 0, among all in alphabetical order."""
    sequence, depth = "", 0
    for left in reversed(range(2 * pairs)):
        if rank < (opening := _endings(left, depth + 1)):
            sequence, depth = sequence + "(", depth + 1
        else:
            sequence, depth, rank = sequence + ")", depth - 1, rank - opening
    return sequence


@functools.cache
def _endings(left: int, depth: int) -> int:
    """Return in how many ways `left` brackets can close all of `depth` open ones, by the ballot theorem."""
    closing = (left + depth) // 2
    return comb(left, closing) - comb(left, closing + 1)
