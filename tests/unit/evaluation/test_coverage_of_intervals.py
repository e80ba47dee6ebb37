"""How often intervals cover what is true, and how often a difference is called one where there is none: simulated."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from lib.evaluation.statistics import FEW_DOCUMENTS, PairedPredictions, PairedSpans

ACCURACY = 0.8
TRIALS = 3000
SETTINGS = [(2, 2000, 3), (2, 366, 5), (3, 2000, 3), (3, 366, 5), (5, 2000, 3), (5, 366, 5), (2, 366, 0), (3, 366, 1)]
"""Seeds, documents, standard deviation of the seeds in points."""


def drawn(generator, seeds, documents, points):
    """Two models of equal worth on documents that are hard or easy for both, and their true macro-F1.

    Two classes are equally frequent and equally hard, so that macro-F1 is the accuracy.
    """
    middle = ndtri(ACCURACY)
    deviation = points / 100 * np.sqrt(2 * np.pi) * np.exp(middle**2 / 2)
    of_seeds = middle + deviation * generator.standard_normal((seeds, 2, 1))
    hard, own = generator.standard_normal(documents), generator.standard_normal((seeds, 2, documents))
    labels = np.arange(documents) % 2
    right = of_seeds + np.sqrt(0.5) * (hard + own) > 0
    predictions = np.where(right, labels, 1 - labels)
    paired = PairedPredictions(["ours", "theirs"], labels, predictions, np.arange(documents), 2)
    return paired, float(ndtr(middle / np.sqrt(1 + deviation**2)))


def rates(seeds, documents, points, trials):
    """Return how often the intervals of a score and of a difference cover, and how often p is at most 0.05."""
    generator = np.random.default_rng([seeds, documents, points])
    found = []
    for _ in range(trials):
        paired, truth = drawn(generator, seeds, documents, points)
        score, difference = paired.score(0), paired.difference(0, 1)
        (low, high), (below, above) = score.score_interval(0.95), difference.difference_interval(0.95)
        found.append((low <= truth <= high, below <= 0 <= above, difference.p_value() <= 0.05))
    return np.mean(found, axis=0)


def agrees(rate, limit, trials, sign):
    """Whether a simulated rate is on the right side of a limit, but for three of its own standard errors."""
    return sign * (rate - limit) >= -3 * np.sqrt(limit * (1 - limit) / trials)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "documents", "points"), SETTINGS)
def test_coverage_of_seeds_and_documents(seeds, documents, points):
    of_score, of_difference, called = rates(seeds, documents, points, TRIALS)
    assert agrees(of_score, 0.95, TRIALS, +1)
    assert agrees(of_difference, 0.95, TRIALS, +1)
    assert agrees(called, 0.05, TRIALS, -1)
    assert min(of_score, of_difference) >= 0.93
    assert called <= 0.07


@pytest.mark.extended
@pytest.mark.parametrize(("seeds", "documents", "points"), [(2, 200, 5), (3, 200, 5)])
def test_coverage_in_few_draws(seeds, documents, points):
    """The same with few draws, so that it runs with every test."""
    of_score, of_difference, called = rates(seeds, documents, points, 400)
    assert min(of_score, of_difference) >= 0.92
    assert called <= 0.08


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 11])
@pytest.mark.parametrize("rarest", [FEW_DOCUMENTS, 25])
def test_coverage_of_macro_f1_with_small_classes(classes, rarest):
    """Documents drawn from many, of classes whose rarest has so many of them in the mean; one seed."""
    generator = np.random.default_rng([classes, rarest])
    shares = np.full(classes, 1 / classes) if classes == 11 else np.array([0.75, 0.25])
    documents, accuracy = round(rarest / shares.min()), 0.7
    confusion = np.outer(shares, shares) * (1 - accuracy) + np.diag(shares * accuracy)
    truth = (2 * np.diag(confusion) / (confusion.sum(axis=0) + confusion.sum(axis=1))).mean()
    covered = []
    for _ in range(TRIALS):
        labels = generator.choice(classes, documents, p=shares)
        guessed = generator.choice(classes, documents, p=shares)
        predictions = np.where(generator.random(documents) < accuracy, labels, guessed)
        paired = PairedPredictions(["model"], labels, predictions[None, None], np.arange(documents), classes)
        low, high = paired.score(0).score_interval(0.95)
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= 0.93


def f1_of_shares(documents, recall, false_positive):
    """Macro-F1 of two classes by the recall of the second one, and by how often the first one is taken for it."""
    hits, alarms = recall * documents[1], false_positive * documents[0]
    missed = documents[1] - hits
    return (
        hits / (hits + (missed + alarms) / 2) + (documents[0] - alarms) / (documents[0] + (missed - alarms) / 2)
    ) / 2


@pytest.mark.extended
@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize(
    ("documents", "recall", "other"), [((180, 20), 0.05, 0.1), ((950, 50), 0.03, 0.03), ((188, 12), 0.99, 0.93)]
)
def test_coverage_with_a_class_hardly_found(documents, recall, other, seeds):
    """Often its F1 is 0 or 1 on test, whichever document is left out."""
    generator = np.random.default_rng([*documents, seeds])
    labels, false_positive = np.repeat([0, 1], documents), 0.001
    chances = np.array([[false_positive, recall], [false_positive, other]])[:, labels]  # [M, n]
    truth = f1_of_shares(documents, np.array([recall, other]), false_positive)
    found = []
    for _ in range(200):
        predictions = (generator.random((seeds, 2, len(labels))) < chances).astype(int)
        paired = PairedPredictions(["ours", "theirs"], labels, predictions, np.arange(len(labels)), 2)
        intervals = [paired.score(0).score_interval(0.95), paired.score(1).score_interval(0.95)]
        intervals.append(paired.difference(0, 1).difference_interval(0.95))
        found.append(
            [low <= true <= high for (low, high), true in zip(intervals, [*truth, truth[0] - truth[1]], strict=True)]
        )
    assert np.mean(found, axis=0).min() >= 0.93


@pytest.mark.extended
@pytest.mark.parametrize(("documents", "with_span", "recall"), [(200, 10, 0.05), (400, 20, 0.05), (200, 10, 0.95)])
def test_coverage_of_spans_in_few_documents(documents, with_span, recall):
    """Often none is found, or all are, whatever the number of documents without one."""
    generator = np.random.default_rng([documents, with_span])
    held, truth, covered = 10 * (np.arange(documents) < with_span), 2 * recall / (1 + recall), []
    for _ in range(200):
        found = held * (generator.random((1, 1, documents)) < recall)
        low, high = PairedSpans(["model"], found, np.zeros_like(found), held - found).score(0).score_interval(0.95)
        covered.append(low <= truth <= high)
    assert np.mean(covered) >= 0.93
