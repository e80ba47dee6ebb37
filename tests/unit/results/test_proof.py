"""The tables and figures of random studies, compared cell by cell with an independent computation: see `proof`."""

import pytest
from proof import differences

STUDIES = 24
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_results_of_random_studies_are_those_of_their_runs(part, tmp_path):
    numbers = range(part * STUDIES // PARTS, (part + 1) * STUDIES // PARTS)
    found = [each for number in numbers for each in differences(number, tmp_path)]
    assert not found, "\n".join(map(str, found[:20]))
