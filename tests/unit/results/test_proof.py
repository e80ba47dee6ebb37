"""The tables and figures of random studies, compared cell by cell with an independent computation: see `proof`."""

import pytest
from proof import differences

FEW = (3, 8)
"""Together they have most kinds of tables and figures."""


@pytest.mark.parametrize(
    "numbers", [pytest.param(FEW, id="few"), pytest.param(range(9, 25), id="many", marks=pytest.mark.extended)]
)
def test_results_of_random_studies(numbers, tmp_path):
    found = [each for number in numbers for each in differences(number, tmp_path)]
    assert not found, "\n".join(map(str, found[:20]))
