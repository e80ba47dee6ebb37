"""Statistics that tables show, by plain formulas: the interval of a difference in F1, and McNemar's test.

Models are given by whether they give documents each class `[seeds, documents, classes]`, of the same documents with
these `labels` `[documents, classes]`. The classes of a group count together: each alone in macro-F1, all in micro-F1.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest, t

FIXED = 1e-24
"""Variance over documents at or below which no document changes the difference."""


def difference_interval(
    labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray, groups: Sequence[slice], confidence: float
) -> tuple[float, float]:
    """Return the ends of the interval, by the formulas that the docstring of `Estimate` describes."""
    (seeds, n, _), level = ours.shape, 1 - confidence
    of_seeds = [f1(labels, a, groups) - f1(labels, b, groups) for a, b in zip(ours, theirs, strict=True)]
    without = [
        [
            f1(*(np.delete(each, i, axis=0) for each in (labels, a)), groups)
            - f1(*(np.delete(each, i, axis=0) for each in (labels, b)), groups)
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
    half = np.sqrt(max(squared, least) + _of_fixed_classes(labels, ours, theirs, groups, level))
    return max(np.mean(of_seeds) - half, -1), min(np.mean(of_seeds) + half, 1)


def f1(labels: np.ndarray, predictions: np.ndarray, groups: Sequence[slice]) -> float:
    """Return the mean over groups of 2 TP / (2 TP + FP + FN), 0 where that is 0 / 0."""
    scores = []
    for group in groups:
        true, found = labels[:, group], predictions[:, group]
        scores.append(2 * (true & found).sum() / max(true.sum() + found.sum(), 1))
    return float(np.mean(scores))


def _of_fixed_classes(
    labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray, groups: Sequence[slice], level: float
) -> float:
    """Return what classes add that both models, in all seeds, never find or always find without an error."""
    added = 0.0
    for group in groups:
        true = labels[:, group]
        never = [not (each[..., group] & true).any() for each in (ours, theirs)]
        always = [(each[..., group] == true).all() for each in (ours, theirs)]
        if true.any() and all(np.logical_or(never, always)):
            u = 1 - level ** (1 / true.any(axis=1).sum())
            added += sum(((2 * u / (1 + u) if missed else u) / len(groups)) ** 2 for missed in never)
    return added


def mcnemar(labels: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the exact p-value of the seed in the middle, or below it, times the seeds over its rank."""
    found = []
    for a, b in zip(*((each == labels).all(axis=-1) for each in (ours, theirs)), strict=True):
        alone, disagree = int((a & ~b).sum()), int((a != b).sum())
        found.append(binomtest(alone, disagree).pvalue if disagree else 1.0)
    rank = (len(found) + 1) // 2
    return min(sorted(found)[rank - 1] * len(found) / rank, 1.0)
