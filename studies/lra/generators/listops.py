"""ListOps: the value of a nested expression in prefix notation, such as `[MAX 2 9 [MIN 4 7 ] 0 ]`, is a digit.

Each operator acts on all its arguments, which may be expressions: `[MAX`, `[MIN`, `[MED` (their median), `[SM` (their
sum modulo 10). The label depends on the tree that the brackets make, and on digits far apart. But the greatest of many
numbers is mostly 9, and the least mostly 0: a guess from the first word alone is right for 32 % of the
documents of 10 to 100 words, and for 37 % of those of 500 to 2,000. A score tells something only above that.

Source: N. Nangia and S. Bowman, "ListOps: A Diagnostic Dataset for Latent Tree Learning" (2018). Trees are drawn as in
Y. Tay et al., "Long Range Arena: A Benchmark for Efficient Transformers" (2020), whose documents have more than 500 and
fewer than 2,000 words; brackets that only binarise the tree, and that they drop when reading, are not written.
"""

import random
from collections.abc import Iterator, Sequence

from pydantic import Field

from lib.core.errors import ConfigError
from lib.core.settings import Few, Size, check
from lib.preparing import toys

FILES = toys.FILES

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
END = "]"

_DIGITS = "0123456789"
_DIGIT_SHARE = 0.75
"""Probability that a node is a digit, where it may be an expression."""
_PATIENCE = 1_000_000
"""Draws without a new document after which the options are taken to allow no more."""


class Options(toys.ToyOptions):
    """Nested expressions of digits."""

    min_length: Size = Field(10, ge=4)
    """Minimum number of words of a document, brackets included."""
    max_length: Size = Field(100, ge=4)
    """Maximum number of words of a document, brackets included."""
    max_depth: Few = Field(10, ge=2)
    """Maximum number of levels of a tree; the last one holds only digits."""
    max_args: Size = Field(10, ge=2)
    """Maximum number of arguments of an operator; the minimum is two."""

    @check
    def _lengths_can_be_reached(self) -> Iterator[str]:
        if self.min_length > self.max_length:
            yield f"min_length = {self.min_length} is above max_length = {self.max_length}. Lower it"
        longest = 1
        for _ in range(self.max_depth - 1):
            longest = 2 + self.max_args * longest
        if self.min_length > longest:
            yield (
                f"min_length: {self.min_length} words are more than the {longest} of the longest expression with "
                f"max_depth = {self.max_depth} and max_args = {self.max_args}. Lower it, or raise one of them"
            )


def value(words: Sequence[str]) -> int:
    """Return the value of an expression."""
    open_lists: list[list[int]] = [[]]
    operators = []
    for word in words:
        if word in OPERATORS:
            operators.append(word)
            open_lists.append([])
        else:
            found = _applied(operators.pop(), open_lists.pop()) if word == END else int(word)
            open_lists[-1].append(found)
    return open_lists[0][0]


def _applied(operator: str, values: list[int]) -> int:
    if operator == "[MIN":
        return min(values)
    if operator == "[MAX":
        return max(values)
    if operator == "[SM":
        return sum(values) % 10
    ordered = sorted(values)
    # Of an even number of values, the mean of the two in the middle, rounded down.
    return (ordered[(len(values) - 1) // 2] + ordered[len(values) // 2]) // 2


def expression(rng: random.Random, options: Options) -> list[str] | None:
    """Draw an expression in prefix order; None if its length is out of range."""
    words: list[str] = []
    length = 1  # in the end, as far as known
    missing = [1]  # arguments, of the operator around each level; the root is an argument of none
    while True:
        if missing[-1]:
            missing[-1] -= 1
            if len(missing) == options.max_depth or rng.random() < _DIGIT_SHARE:
                words.append(_DIGITS[int(rng.random() * 10)])
                continue
            arguments = 2 + int(rng.random() * (options.max_args - 1))
            words.append(OPERATORS[int(rng.random() * len(OPERATORS))])
            missing.append(arguments)
            length += arguments + 1
            if length > options.max_length:
                return None
        elif len(missing) > 1:
            missing.pop()
            words.append(END)
        else:
            return words if length >= options.min_length else None


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits, `text` and `label`; no expression comes twice.

    Raises:
        ConfigError: the options allow too few expressions, or hardly ever one of these lengths.
    """
    drawn: dict[str, int] = {}
    in_vain = 0
    while len(drawn) < documents:
        words = expression(rng, options)
        if words is None or (text := " ".join(words)) in drawn:
            in_vain += 1
            if in_vain == _PATIENCE:
                raise ConfigError(
                    f"listops: found {len(drawn):,} of {documents:,} distinct expressions of {options.min_length} to "
                    f"{options.max_length} words, and {_PATIENCE:,} draws brought no other. Ask for fewer documents, "
                    "or allow more lengths (options.min_length, options.max_length)."
                )
            continue
        in_vain = 0
        drawn[text] = value(words)
    return toys.tables(list(drawn.items()), options.sizes(documents))
