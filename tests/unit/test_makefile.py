"""What `make` does before a command: an environment is made where there is none, and asking changes none."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

OLD = "sys.version_info, sys.version = (3, 11, 2), '3.11.2 (main)'"  # Debian 12; it cannot unpack archives safely


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
def test_asking_about_results_leaves_the_environment_as_it_is(planned, tmp_path, target):
    said = planned(target)
    assert f"scripts/tools/{target}.py" in said
    assert "pip install" not in said
    (tmp_path / ".venv" / ".done").unlink()
    assert "pip install" in planned(target)


def test_an_old_python_is_named_before_anything_is_made(repository, tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(repository / name, tmp_path)
    old = tmp_path / "old-python"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "import sys; {OLD}; exec(sys.argv[2])" "$@"\n')
    old.chmod(0o755)
    process = subprocess.run(["make", "setup", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode
    assert f"{old} is Python 3.11.2, but 3.11.4 or newer is needed. Name one: make setup PYTHON=" in process.stderr
    assert not (tmp_path / ".venv").exists()


def test_the_python_that_setup_asks_for_is_that_of_the_package(repository):
    needed = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["requires-python"]
    assert (
        f"sys.version_info >= ({needed.removeprefix('>=').replace('.', ', ')})" in (repository / "Makefile").read_text()
    )


def test_other_commands_bring_the_environment_up_to_date_and_those_of_developers_have_everything(planned):
    demo, lint = planned("demo"), planned("lint")
    assert "--requirement requirements.lock" in demo
    assert "--requirement requirements-all.lock" not in demo
    assert lint.index("--requirement requirements.lock") < lint.index("--requirement requirements-all.lock")


def test_a_study_is_read_by_us_before_snakemake_reads_it(planned):
    """Snakemake shows its own traceback for a file that is no text, or nested without end."""
    said = planned("demo")
    assert said.index("scripts/tools/status.py --configfile config/demo.yaml") < said.index(
        "bin/snakemake --configfile"
    )


def test_a_report_is_made_of_any_study(planned, tmp_path):
    (tmp_path / "studies" / "toy").mkdir(parents=True)
    (tmp_path / "studies" / "toy" / "demo_toy.yaml").touch()
    assert "--configfile config/mine.yaml" in planned("report", "CONFIG=config/mine.yaml")
    assert "--configfile studies/toy/demo_toy.yaml" in planned("report", "STUDY=toy")
    assert "--configfile config/demo.yaml" in planned("report")


@pytest.mark.parametrize(
    ("content", "message"), [(None, "mine.yaml: cannot be read"), ("stages: {}", "stages: unknown key. Remove it")]
)
def test_a_report_of_a_wrong_study_says_what_is_wrong_with_it(planned, repository, tmp_path, content, message):
    (tmp_path / ".venv" / ".done").touch()
    if content is not None:
        (tmp_path / "mine.yaml").write_text(content)
    command = ["make", "report", "CONFIG=mine.yaml", "CORES=1", f"BIN={Path(sys.executable).parent}"]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode
    assert message in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("files", ["'my study.yaml'", r"my\ study.yaml", "base.yaml 'my study.yaml'"])
def test_a_path_with_spaces_is_quoted_for_the_shell(planned, repository, tmp_path, monkeypatch, files):
    (tmp_path / "base.yaml").write_text("{}")
    (tmp_path / "my study.yaml").write_text(f"{{extends: {repository}/config/demo.yaml, execution: {{results: mine}}}}")
    monkeypatch.setenv("PYTHONPATH", str(repository))
    bin_folder = f"BIN={Path(sys.executable).parent}"
    assert "results=mine;" in planned("report", f"CONFIG={files}", bin_folder)
    assert f"verify.py --configfile {files}\n" in planned("verify", f"CONFIG={files}", bin_folder)


def test_a_report_gets_its_name_when_it_is_complete(planned):
    said = planned("report")
    assert "--report $results/.report.html" in said
    assert said.index("--report") < said.index("mv $results/.report.html $results/report.html")
