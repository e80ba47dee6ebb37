"""How well spans are found, by the characters that they hold.

n characters, of all documents of a split together.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SEARCHED = np.arange(10, 51) / 100
"""Thresholds among which the best is searched."""


class Counts(NamedTuple):
    """Characters, of one document or of many."""

    true_positives: int
    """Characters in a true span that were predicted."""
    false_positives: int
    """Found, but in none."""
    false_negatives: int
    """Characters in a true span that were not predicted."""


def character_counts(found: np.ndarray, inside: np.ndarray) -> Counts:
    """Return how many characters are right and wrong.

    Args:
        found: which are predicted to lie in a span [n].
        inside: which do [n].
    """
    hits = int((found & inside).sum())
    return Counts(hits, int(found.sum()) - hits, int(inside.sum()) - hits)


def span_metrics(counts: Counts) -> Mapping[str, float]:
    """Return `precision`, `recall` and `f1` of characters as fractions; 0 where nothing is found or to be found.

    Counts are those of all documents together (micro average), so long documents weigh more than short ones, and one
    without spans counts by what is wrongly found in it.

    Source: the metric of the UNLP 2025 shared task on span identification.
    """
    hits, wrong, missed = counts
    precision, recall = (hits / total if total else 0.0 for total in (hits + wrong, hits + missed))
    return {"precision": precision, "recall": recall, "f1": 2 * hits / (2 * hits + wrong + missed) if hits else 0.0}


def searched_threshold(probabilities: np.ndarray, inside: np.ndarray) -> float:
    """Return the threshold among `SEARCHED` with the highest F1; the highest of several.

    Args:
        probabilities: how likely each character lies in a span [n].
        inside: which do [n].
    """
    scores = [span_metrics(character_counts(probabilities >= each, inside))["f1"] for each in SEARCHED]
    return float(SEARCHED[len(scores) - 1 - int(np.argmax(scores[::-1]))])


def balanced_threshold(probabilities: np.ndarray, inside: np.ndarray) -> float:
    """Return the probability from which as many characters are found as lie in spans, or nearly so.

    Characters that are equally likely are found together, so the number may be missed; then the nearest one counts, and
    of two the smaller.

    Args:
        probabilities: how likely each character lies in a span [n].
        inside: which do [n], one at least.
    """
    values, counts = np.unique(probabilities, return_counts=True)
    found = counts[::-1].cumsum()[::-1]  # from each value on
    distance = np.abs(found - inside.sum())
    return float(values[len(values) - 1 - int(np.argmin(distance[::-1]))])
