"""How well vectors tell classes apart."""

import numpy as np
import pytest

from lib.analysis.computations.embeddings import separation

LABELS = np.array([0] * 20 + [1] * 10)


def test_one_vector_for_all_tells_nothing():
    """The best that a classifier can do is to say the greater class, two thirds of the documents."""
    silhouette, accuracy = separation(np.ones((30, 4)), LABELS, seed=1)
    assert silhouette == 0
    assert accuracy == pytest.approx(2 / 3)


def test_two_points_tell_everything():
    vectors = np.where(LABELS[:, None] == 1, 1.0, -1.0) * np.ones((30, 4))
    assert separation(vectors, LABELS, seed=1) == (1, 1)


def test_a_silhouette_by_hand():
    """On a line at 0, 1 and 4, 5: within a class 1 apart, from the other class 4.5 or 3.5 on average."""
    vectors = np.array([0.0, 1.0] * 10 + [4.0, 5.0] * 5)[:, None]
    silhouette, accuracy = separation(vectors, LABELS, seed=1)
    first = 1 - np.array([10 / 19 / 4.5, 10 / 19 / 3.5]).mean()
    second = 1 - np.array([5 / 9 / 3.5, 5 / 9 / 4.5]).mean()
    assert silhouette == pytest.approx((20 * first + 10 * second) / 30)
    assert accuracy == 1
