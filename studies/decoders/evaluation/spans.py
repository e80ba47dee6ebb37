"""Detected spans, from values of tokens to those of characters, and their scores by character.

n characters, of a document or of all documents of a split together; m tokens, of all windows of a document.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

SEARCHED = np.arange(10, 51) / 100
"""Thresholds to search."""


def spans_of(inside: np.ndarray) -> list[tuple[int, int]]:
    """Return the longest spans that hold exactly those characters [n] that are inside."""
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def character_values(starts: ArrayLike, ends: ArrayLike, values: ArrayLike, characters: int) -> np.ndarray:
    """Return the value of each character [n] from the values of its tokens.

    A character of several tokens, or in several windows, has their mean: each window saw another context, and none is
    known to be right more often; a mean depends on no order, and stays a probability. A character of no token, such as
    a space, has the lesser one of its neighbours': so whatever the threshold, neighbouring tokens that are found make
    one span, and no span begins or ends with a character that no model saw. Before the first token and behind the last
    one it is 0.

    Args:
        starts: where the tokens begin, in characters [m].
        ends: where they end [m].
        values: of the tokens, such as probabilities [m].
        characters: n.
    """
    starts = np.asarray(starts, int)
    lengths = np.asarray(ends, int) - starts
    # Each token's places, one after the other.
    places = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    covered = np.bincount(places, minlength=characters)
    sums = np.bincount(places, np.repeat(np.asarray(values, float), lengths), minlength=characters)
    means = sums / np.maximum(covered, 1)
    known = np.concatenate([[-1], np.flatnonzero(covered), [characters]])  # with edges, whose value is 0
    following = np.searchsorted(known, np.arange(characters))
    at_edges = np.concatenate([[0], means[known[1:-1]], [0]])
    return np.where(covered > 0, means, np.minimum(at_edges[following - 1], at_edges[following]))


class Counts(NamedTuple):
    """Numbers of characters, in one document or several."""

    true_positives: int
    """Characters in a true span that were predicted."""
    false_positives: int
    """Predicted characters outside all true spans."""
    false_negatives: int
    """Characters in a true span that were not predicted."""


def character_counts(found: np.ndarray, inside: np.ndarray) -> Counts:
    """Return how many characters are right and wrong.

    Args:
        found: whether each character is predicted to be in a span [n].
        inside: whether each character is in a span [n].
    """
    hits = int((found & inside).sum())
    return Counts(hits, int(found.sum()) - hits, int(inside.sum()) - hits)


def span_metrics(counts: Counts) -> Mapping[str, float]:
    """Return `precision`, `recall` and `f1` of characters as fractions; 0 instead of 0 / 0.

    Counts are those of all documents together (micro average), so long documents have more weight than short ones, and
    a document without spans contributes its false positives.

    Source: the metric of the UNLP 2025 shared task on span identification.
    """
    hits, wrong, missed = counts
    precision, recall = (hits / total if total else 0.0 for total in (hits + wrong, hits + missed))
    return {"precision": precision, "recall": recall, "f1": 2 * hits / (2 * hits + wrong + missed) if hits else 0.0}


def searched_threshold(probabilities: np.ndarray, inside: np.ndarray) -> float:
    """Return the threshold in `SEARCHED` with the highest F1; among equal ones the highest.

    Args:
        probabilities: probability of each character to be in a span [n].
        inside: whether each character is in a span [n].
    """
    scores = [span_metrics(character_counts(probabilities >= each, inside))["f1"] for each in SEARCHED]
    return float(SEARCHED[len(scores) - 1 - int(np.argmax(scores[::-1]))])


def balanced_threshold(probabilities: np.ndarray, inside: np.ndarray) -> float:
    """Return the threshold that predicts a number of characters nearest to the true number.

    Equally likely characters are predicted together, so the numbers may differ; among two nearest ones the smaller is
    taken.

    Args:
        probabilities: probability of each character to be in a span [n].
        inside: whether each character is in a span [n], at least one.
    """
    values, counts = np.unique(probabilities, return_counts=True)
    found = counts[::-1].cumsum()[::-1]  # from each value on
    distance = np.abs(found - inside.sum())
    return float(values[len(values) - 1 - int(np.argmin(distance[::-1]))])
