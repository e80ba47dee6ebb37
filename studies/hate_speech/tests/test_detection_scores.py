from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.evaluation.decisions import threshold

pytestmark = pytest.mark.extended


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=40), st.integers(0, 8))
def test_threshold_with_the_best_f1(rows, own):
    positive, eighths = np.array([*rows, (True, own)]).T.astype(int)

    def f1(threshold):
        found = eighths >= threshold
        return Fraction(2 * int((found & (positive == 1)).sum()), int(found.sum() + positive.sum()))

    best = max(sorted(set(eighths.tolist()), reverse=True), key=f1)
    assert threshold(eighths / 8, positive == 1, "f1") == best / 8
