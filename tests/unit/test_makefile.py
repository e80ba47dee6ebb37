"""What `make` does before a command: an environment is made where there is none, and asking changes none."""

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def planned(repository, tmp_path):
    """Return the commands of a target, in a project whose environment is older than what it should hold."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(repository / name, tmp_path)
    done = tmp_path / ".venv" / ".done"
    done.parent.mkdir()
    done.touch()
    os.utime(done, (0, 0))

    def make(target, *variables):
        command = ["make", "-n", target, "TARGET=all", "CORES=1", *variables]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    return make


@pytest.mark.parametrize("target", ["why", "accept", "status", "verify"])
def test_asking_about_results_leaves_the_environment_as_it_is(planned, tmp_path, target):
    said = planned(target)
    assert f"scripts/tools/{target}.py" in said
    assert "pip install" not in said
    (tmp_path / ".venv" / ".done").unlink()
    assert "pip install" in planned(target)


def test_other_commands_bring_the_environment_up_to_date(planned):
    assert "pip install" in planned("lint")


def test_a_study_is_read_by_us_before_snakemake_reads_it(planned):
    """Snakemake shows its own traceback for a file that is no text, or nested without end."""
    said = planned("demo")
    assert said.index("scripts/tools/status.py --configfile config/demo.yaml") < said.index(
        "bin/snakemake --configfile"
    )


def test_a_report_is_made_of_any_study(planned):
    assert "--configfile config/mine.yaml" in planned("report", "CONFIG=config/mine.yaml")
    assert "--configfile config/demo_toy.yaml" in planned("report", "STUDY=toy")
    assert "--configfile config/demo.yaml" in planned("report")


def test_a_report_gets_its_name_when_it_is_complete(planned):
    said = planned("report")
    assert "--report $results/.report.html" in said
    assert said.index("--report") < said.index("mv $results/.report.html $results/report.html")
