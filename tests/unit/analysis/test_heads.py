"""Figures and types of attention heads, by maps made by hand."""

import math

import numpy as np
import pytest

from lib.analysis.computations.heads import head_figures, rows_of

LENGTHS = (4, 6)


def attending(strongest, tokens):
    """Return a map in which query i attends to `strongest(i)` alone."""
    weights = np.zeros((tokens, tokens))
    weights[range(tokens), [strongest(query) for query in range(tokens)]] = 1
    return weights


def figures(*maps, window=1):
    """Return the figures of a head that has these maps in as many documents; their last tokens are special."""
    parts = [rows_of(weights[None], np.arange(len(weights)) == len(weights) - 1, window) for weights in maps]
    return head_figures({name: np.concatenate([part[name][0] for part in parts]) for name in parts[0]})


def test_mirror_is_positional():
    """Documents of different lengths have neither offsets nor positions in common, but their mirror image."""
    found = figures(*[attending(lambda query, n=n: n - 1 - query, n) for n in LENGTHS])
    assert (found["type"], found["place"], found["agreement"]) == ("positional", "mirror 0", 1)
    assert (found["entropy"], found["entropy_share"]) == (0, 0)
    # 3, 1, 1, 3 and 5, 3, 1, 1, 3, 5 tokens apart.
    assert found["distance"] == pytest.approx((8 + 18) / 10)
    assert found["itself"] == 0
    assert found["first"] == pytest.approx(2 / 10)
    # The pairs in the middle are neighbours: one of three queries with a previous token, one of five, and so on.
    assert found["previous"] == pytest.approx(2 / 8)
    assert found["next"] == pytest.approx(2 / 8)


@pytest.mark.parametrize(
    ("strongest", "place", "agreement", "distance"),
    [
        (lambda query, n: query, "offset 0", 1, 0),
        (lambda query, n: max(query - 1, 0), "offset -1", 8 / 10, 8 / 10),
        (lambda query, n: min(query + 2, n - 1), "offset +2", 6 / 10, (2 + 2 + 1 + 2 + 2 + 2 + 2 + 1) / 10),
        (lambda query, n: 0, "start 0", 1, (6 + 15) / 10),
        (lambda query, n: n - 1, "end 0", 1, (6 + 15) / 10),
        (lambda query, n: n - 2, "end -1", 1, (4 + 11) / 10),
    ],
)
def test_positional_heads(strongest, place, agreement, distance):
    found = figures(*[attending(lambda query, n=n: strongest(query, n), n) for n in LENGTHS])
    assert (found["type"], found["place"]) == ("positional", place)
    assert found["agreement"] == pytest.approx(agreement)
    assert found["distance"] == pytest.approx(distance)


def test_equal_weights_are_global():
    """Their strongest key is always the first, which says nothing."""
    found = figures(*[np.full((n, n), 1 / n) for n in LENGTHS])
    assert found["type"] == "global"
    assert found["entropy"] == pytest.approx((4 * math.log(4) + 6 * math.log(6)) / 10)
    assert found["entropy_share"] == pytest.approx(1)
    # The mean of |i - j| over all pairs is (n^2 - 1) / 3n.
    assert found["distance"] == pytest.approx((4 * 15 / 12 + 6 * 35 / 18) / 10)
    assert found["distance_share"] == pytest.approx(1)
    assert found["itself"] == found["first"] == pytest.approx(2 / 10)


def test_entropy_share_by_hand():
    weights = np.array([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0.5, 0, 0.5, 0], [0.5, 0, 0, 0.5]])
    found = figures(weights)
    assert found["entropy"] == pytest.approx(math.log(2))
    assert found["entropy_share"] == pytest.approx(0.5)
    assert found["distance"] == pytest.approx((0.5 + 0.5 + 1 + 1.5) / 4)
    assert found["itself"] == pytest.approx((0.5 + 0.5 + 0.5 + 0.5) / 4)
    assert found["next"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert found["previous"] == 0


def test_weights_by_distance():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0, 0, 0, 1], [0.25, 0.25, 0.25, 0.25]])
    found = figures(weights)
    # The last token is special, however near; the others are near if they are one token away at most.
    assert found["special"] == pytest.approx((0.4 + 0.1 + 1 + 0.25) / 4)
    assert found["near"] == pytest.approx((0.3 + 0.9 + 0 + 0.25) / 4)
    assert found["far"] == pytest.approx((0.3 + 0 + 0 + 0.5) / 4)
    assert found["uniform_special"] == 1 / 4
    assert found["uniform_near"] == (2 + 3 + 2 + 1) / 16
    assert figures(weights, window=3)["far"] == 0
