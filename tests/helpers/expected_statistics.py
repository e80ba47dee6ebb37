"""Statistics that tables show, by plain formulas: the interval of a difference in macro-F1, and McNemar's test.

Models are given by their predictions `[seeds, documents]`, of the same documents with these `labels`.
"""

import numpy as np
from scipy.stats import binomtest, t

FIXED = 1e-24
"""Variance over documents at or below which no document changes the difference."""


def difference_interval(
    labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray, classes: int, confidence: float
) -> tuple[float, float]:
    """Return the ends of the interval, by the formulas that the docstring of `Estimate` describes."""
    (seeds, n), level = ours.shape, 1 - confidence
    of_seeds = [macro_f1(labels, a, classes) - macro_f1(labels, b, classes) for a, b in zip(ours, theirs, strict=True)]
    without = [
        [
            macro_f1(*(np.delete(each, i) for each in (labels, a)), classes)
            - macro_f1(*(np.delete(each, i) for each in (labels, b)), classes)
            for a, b in zip(ours, theirs, strict=True)
        ]
        for i in range(n)
    ]
    jackknife = (n - 1) ** 2 / n * np.cov(without, rowvar=False).reshape(seeds, seeds)
    given = jackknife.mean()
    shared = max(jackknife[~np.eye(seeds, dtype=bool)].mean(), 0) if seeds > 1 else given
    quantile = t.ppf(1 - level / 2, max(n - 1, 1)) ** 2
    least = quantile * given if given > FIXED else (1 - level ** (1 / n)) ** 2
    squared = quantile * shared
    if seeds > 1:
        squared += t.ppf(1 - level / 2, seeds - 1) ** 2 * np.var(of_seeds, ddof=1) / seeds
    half = np.sqrt(max(squared, least) + _of_fixed_classes(labels, ours, theirs, classes, level))
    return max(np.mean(of_seeds) - half, -1), min(np.mean(of_seeds) + half, 1)


def macro_f1(labels: np.ndarray, predictions: np.ndarray, classes: int) -> float:
    """Return the mean over classes of 2 TP / (2 TP + FP + FN), 0 where that is 0 / 0."""
    scores = []
    for number in range(classes):
        true, found = labels == number, predictions == number
        scores.append(2 * (true & found).sum() / max(true.sum() + found.sum(), 1))
    return float(np.mean(scores))


def _of_fixed_classes(labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray, classes: int, level: float) -> float:
    """Return what classes add that both models, in all seeds, never find or always find without an error."""
    added = 0.0
    for number in range(classes):
        true = labels == number
        never = [not (each[:, true] == number).any() for each in (ours, theirs)]
        always = [((each == number) == true).all() for each in (ours, theirs)]
        if true.any() and all(np.logical_or(never, always)):
            u = 1 - level ** (1 / true.sum())
            added += sum(((2 * u / (1 + u) if missed else u) / classes) ** 2 for missed in never)
    return added


def mcnemar(labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the exact p-value of the seed in the middle, or below it, times the seeds over its rank."""
    found = []
    for a, b in zip(ours == labels, theirs == labels, strict=True):
        alone, disagree = int((a & ~b).sum()), int((a != b).sum())
        found.append(binomtest(alone, disagree).pvalue if disagree else 1.0)
    rank = (len(found) + 1) // 2
    return min(sorted(found)[rank - 1] * len(found) / rank, 1.0)
