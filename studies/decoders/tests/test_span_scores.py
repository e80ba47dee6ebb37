import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score

from studies.decoders.evaluation.spans import (
    Counts,
    balanced_threshold,
    character_counts,
    searched_threshold,
    span_metrics,
)

pytestmark = pytest.mark.extended


def chosen(spans, characters=900):
    found = np.zeros(characters, bool)
    for start, end in spans:
        found[start:end] = True
    return found


def test_score_of_the_shared_task():
    """The example that its own code gives, of three documents together: 0.16296296296296295."""
    true = [[(612, 622), (725, 831)], [(300, 312)], []]
    found = [[(612, 622), (700, 720)], [(300, 312)], [(100, 200)]]
    counts = [character_counts(chosen(ours), chosen(theirs)) for ours, theirs in zip(found, true, strict=True)]
    assert counts == [Counts(10, 20, 106), Counts(12, 0, 0), Counts(0, 100, 0)]
    total = Counts(*np.sum(counts, axis=0).tolist())
    assert span_metrics(total)["f1"] == pytest.approx(0.16296296296296295)
    assert span_metrics(total)["precision"] == pytest.approx(22 / 142)
    assert span_metrics(total)["recall"] == pytest.approx(22 / 128)


@pytest.mark.parametrize("shares", [(0.3, 0.4), (0.0, 0.4), (0.3, 0.0)])
def test_scores_by_scikit_learn(shares):
    generator = np.random.default_rng(0)
    found, inside = (generator.random(500) < share for share in shares)
    scores = span_metrics(character_counts(found, inside))
    for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
        assert scores[name] == pytest.approx(score(inside, found, zero_division=0))


def test_threshold_with_the_best_f1():
    inside = np.array([True, True, False, False])
    assert searched_threshold(np.array([0.9, 0.335, 0.325, 0.0]), inside) == 0.33
    assert searched_threshold(np.array([0.9, 0.9, 0.2, 0.2]), inside) == 0.5
    assert searched_threshold(np.array([0.05, 0.05, 0.01, 0.0]), inside) == 0.5  # nothing is found by any


@pytest.mark.parametrize(
    ("probabilities", "inside", "threshold"),
    [
        ([0.9, 0.7, 0.7, 0.1], 3, 0.7),
        ([0.9, 0.7, 0.7, 0.1], 2, 0.9),  # one or three: either misses by one
    ],
)
def test_balanced_threshold(probabilities, inside, threshold):
    found = balanced_threshold(np.array(probabilities), np.arange(len(probabilities)) < inside)
    assert found == threshold
