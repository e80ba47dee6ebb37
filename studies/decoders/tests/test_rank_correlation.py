"""Rank correlation of few pairs."""

import math

import numpy as np
import pytest

from studies.decoders.evaluation.rank_correlation import rank_correlation

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("pairs", [4, 9])
def test_level_of_few_pairs(pairs):
    """Of unrelated numbers; Student's t rejects a level of 5 % in 8 % of the draws of four pairs."""
    generator = np.random.default_rng(pairs)
    p_values = [rank_correlation(*generator.normal(size=(2, pairs)))[1] for _ in range(300)]
    assert np.mean(np.array(p_values) <= 0.05) < 0.08
    assert rank_correlation(range(pairs), range(pairs)) == (pytest.approx(1), max(2 / math.factorial(pairs), 2 / 10000))
