import os
import subprocess
import sys

import pytest

from lib.measure.busy_cost import SPINS, busy_cost


def test_a_row_per_number_of_spins_and_busy_processes_and_the_environment_as_before(monkeypatch):
    monkeypatch.delenv(SPINS, raising=False)
    table = busy_cost(spins=[1000], busy=[1], mechanism="sdpa", length=16, tokens=16, turns=1)
    assert set(table["implementation"]) == {"ours", "torch"}
    assert (table[["busy", "spins", "repetitions"]] == [1, 1000, 1]).all(axis=None)
    assert (table["median_ms"] > 0).all()
    assert SPINS not in os.environ


@pytest.mark.parametrize("theirs", [None, "0"])
def test_threads_of_the_workflow_spin_shortly_unless_the_environment_says_how_long(repository, monkeypatch, theirs):
    """OpenMP's own 300,000 spins take milliseconds, which on a busy machine the thread waited for would need."""
    monkeypatch.delenv(SPINS, raising=False)
    if theirs is not None:
        monkeypatch.setenv(SPINS, theirs)
    rules = (repository / "workflow/rules/common.smk").read_text()
    (line,) = [line for line in rules.splitlines() if SPINS in line]
    command = f"import os; {line}; print(os.environ['{SPINS}'])"
    told = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
    assert told.strip() == (theirs or "10000")
