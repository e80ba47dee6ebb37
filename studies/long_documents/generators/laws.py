"""Documents with up to eight of thousands of labels, a few of them in many documents and most of them in few."""

import itertools
import random

from pydantic import Field

from lib.preparing.english import COMMON, sentences
from lib.preparing.generators import GeneratorOptions

FILES = {part: [f"{part}.parquet"] for part in ("train", "validation", "test")}

_PATTERNS = ("the ADJ NOUN was VERBED by NAME", "NAME VERBED the ADJ NOUN in TIME", "the NOUN of PLACE is ADJ")
_SENTENCES = (2, 6)
_LABELS = (0, 8)


class Options(GeneratorOptions):
    """Options of the documents."""

    labels: int = Field(100, ge=2, le=10_000)
    """Number of labels."""


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three parts: a tenth for validation, a tenth for test.

    The n-th label is in documents in proportion to 1 / n; each of a document's labels stands in it as a word.
    """
    weights = list(itertools.accumulate(1 / number for number in range(1, options.labels + 1)))
    rows = []
    for _ in range(documents):
        drawn = rng.choices(range(options.labels), cum_weights=weights, k=rng.randint(*_LABELS))
        made = sentences(rng, _PATTERNS, COMMON, rng.randint(*_SENTENCES)) + [f"concept{label}" for label in drawn]
        rng.shuffle(made)
        rows.append({"text": " ".join(made), "label": sorted({*drawn})})
    tenth = documents // 10
    parts = {"train": rows[2 * tenth :], "validation": rows[:tenth], "test": rows[tenth : 2 * tenth]}
    return {FILES[part][0]: {name: [row[name] for row in found] for name in rows[0]} for part, found in parts.items()}
