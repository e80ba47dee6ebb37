"""The tables and figures of random studies, compared cell by cell with an independent computation: see `proof`."""

import pytest
from proof import differences

FEW = (0, 4, 5, 12, 17, 19, 21)
"""Quick ones that together have nearly all kinds of tables."""
MANY = [number for number in range(24) if number not in FEW]


@pytest.mark.parametrize(
    "numbers", [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.extended)]
)
def test_results_of_random_studies(numbers, tmp_path):
    found = [each for number in numbers for each in differences(number, tmp_path)]
    assert not found, "\n".join(map(str, found[:20]))
