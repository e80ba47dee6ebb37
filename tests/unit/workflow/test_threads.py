"""What the rules tell the libraries of their programs about threads."""

import subprocess
import sys

import pytest

SPINS = "GOMP_SPINCOUNT"


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
