import numpy as np
import pytest

from lib.evaluation.calibration import expected_calibration_error, reliability


def test_bins_without_their_lower_end():
    table = reliability([1, 0, 1, 1], [0.2, 0.4, 0.41, 1.0], bins=5)
    assert table["confidence"].tolist() == pytest.approx([0.2, 0.4, 0.41, 1.0])
    assert table["accuracy"].tolist() == [1, 0, 1, 1]
    assert table["documents"].tolist() == [1, 1, 1, 1]
    table = reliability([1, 0, 1, 1], [0.2, 0.4, 0.41, 1.0], bins=2)
    assert table["confidence"].tolist() == pytest.approx([1.01 / 3, 1.0])
    assert table["accuracy"].tolist() == pytest.approx([2 / 3, 1])
    assert table["documents"].tolist() == [3, 1]


def test_calibration_error_weighs_documents():
    table = reliability([1, 1, 0, 1], [0.9, 0.9, 0.9, 0.3], bins=10)
    assert expected_calibration_error(table) == pytest.approx((3 * abs(2 / 3 - 0.9) + 0.7) / 4)


@pytest.mark.extended
def test_calibration_error_of_many_documents():
    generator = np.random.default_rng(1)
    confidence = generator.uniform(0.5, 1, 100_000)
    right = generator.uniform(size=100_000) < confidence
    assert expected_calibration_error(reliability(right, confidence, bins=10)) < 0.01
    assert expected_calibration_error(reliability(right, confidence - 0.2, bins=10)) == pytest.approx(0.2, abs=0.01)


def test_confidence_beyond_one():
    assert reliability([1], [1 + 1e-7], bins=10)["confidence"].tolist() == [1]
    for wrong in (1.01, -0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="between 0 and 1"):
            reliability([1], [wrong], bins=10)
