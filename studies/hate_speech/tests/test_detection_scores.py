from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.hate_speech.evaluation.detection import best_threshold


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), max_size=40), st.integers(0, 8))
def test_of_thresholds_with_the_same_f1_the_highest_is_taken(rows, own):
    positive, eighths = np.array([*rows, (True, own)]).T.astype(int)

    def f1(threshold):
        found = eighths >= threshold
        return Fraction(2 * int((found & (positive == 1)).sum()), int(found.sum() + positive.sum()))

    best = max(sorted(set(eighths.tolist()), reverse=True), key=f1)
    assert best_threshold(positive, eighths / 8) == best / 8


def test_a_class_that_no_document_has_is_refused():
    with pytest.raises(ValueError, match="no document is of the class"):
        best_threshold([False, False], [0.1, 0.9])
