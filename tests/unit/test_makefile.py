"""What `make` does before a command: an environment is made where there is none, and asking changes none."""

import os
import shutil
import subprocess
import sys
import tomllib

import pytest

OLD = "sys.version_info, sys.version = (3, 11, 1), '3.11.1 (main)'"


@pytest.fixture
def planned(repository, tmp_path):
    """Return the commands of a target, in a project whose environment is older than what it should hold."""
    for name in ("Makefile", "requirements.lock", "requirements-all.lock", "pyproject.toml"):
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
def test_environment_of_a_question(planned, tmp_path, target):
    assert "pip install" not in planned(target)
    (tmp_path / ".venv" / ".done").unlink()
    assert "pip install" in planned(target)


def test_environment_of_each_ring_of_tests(planned):
    """The first ring has what the demo has, the others all extras."""
    demo, first, all_of_them = planned("demo"), planned("test"), planned("test-all")
    assert "--requirement requirements.lock" in demo
    assert "--requirement requirements-all.lock" not in demo + first
    assert all_of_them.index(" -m pytest -n") < all_of_them.index("--requirement requirements-all.lock")
    assert all_of_them.index("--requirement requirements-all.lock") < all_of_them.index("-m 'extended and")


def test_setup_with_an_old_python(repository, tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(repository / name, tmp_path)
    old = tmp_path / "old-python"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; {OLD}; exec(sys.argv[2])" "$@"\n')
    old.chmod(0o755)
    process = subprocess.run(["make", "setup", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True)
    needed = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["requires-python"]
    assert process.returncode
    assert f"{old} is Python 3.11.1, but {needed.removeprefix('>=')} or newer is needed." in process.stderr
    assert not (tmp_path / ".venv").exists()


def test_study_of_a_demo_and_of_a_report(planned, tmp_path):
    """We read a study before Snakemake does, which shows its own traceback for a file that is no text."""
    (tmp_path / "studies" / "toy").mkdir(parents=True)
    (tmp_path / "studies" / "toy" / "demo_toy.yaml").touch()
    demo = planned("demo")
    assert demo.index("status.py --configfile config/demo.yaml") < demo.index("bin/snakemake --configfile")
    assert "--configfile config/mine.yaml" in planned("report", "CONFIG=config/mine.yaml")
    assert "--configfile studies/toy/demo_toy.yaml" in planned("report", "STUDY=toy")
