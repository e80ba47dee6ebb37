"""Rank correlation of few pairs."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import permutation_test, rankdata, spearmanr


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return Spearman's rank correlation of pairs, and the p-value of none: two-sided, over permutations of the pairs.

    Up to 7 pairs these are all permutations, beyond that 9,999 random ones. Student's t, the usual approximation, has
    p = 0 for four pairs in the same order; exactly it is 2 / 24.

    Args:
        one: one number of each pair [n].
        other: the other number of each [n].
    """
    ranks = rankdata(other) - (len(other) + 1) / 2
    tested = permutation_test(
        [rankdata(one)],
        lambda permuted, axis: (permuted * ranks).sum(axis),
        permutation_type="pairings",
        n_resamples=9999,
        rng=np.random.default_rng(0),
    )
    return float(spearmanr(one, other).statistic), float(tested.pvalue)
