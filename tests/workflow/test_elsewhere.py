"""The workflow away from its own folder: with results in another one, as a module, and deployed from its repository."""

import json
import os
import subprocess
import sys

import pytest
import yaml

pytestmark = pytest.mark.study

RECORD = "results/alone/runs/score/words/imdb/seed-1/run.json"
TABLE = "results/alone/tables/scores.csv"
AS_MODULE = """
configfile: "mine.yaml"

module grid:
    snakefile: {snakefile}
    config: config

use rule * from grid as grid_*

rule mine:
    default_target: True
    input: "{record}", "{table}"
    output: "mine.txt"
    shell: "wc -l {{input}} > {{output}}; echo done >> {{output}}"
"""


def as_module(snakefile, folder, settings):
    """Write a workflow that uses ours as a module."""
    folder.mkdir()
    (folder / "mine.yaml").write_text(yaml.safe_dump(settings))
    (folder / "Snakefile").write_text(AS_MODULE.format(snakefile=snakefile, record=RECORD, table=TABLE))


def snakemake(folder, *arguments, **environment):
    """Run snakemake in `folder`, which knows nothing of the repository."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "snakemake", "--cores", "1", *map(str, arguments)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def one_seed(settings):
    """Return the settings of a study with the first of its seeds alone."""
    return settings | {"experiment": settings["experiment"] | {"seeds": [1]}}


@pytest.fixture(scope="module")
def published(copy_of_repository, alone):
    """A copy that is a repository of one commit."""
    project = copy_of_repository("published")
    project.configure(one_seed(alone), "alone.yaml")
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for arguments in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "all")):
        subprocess.run(["git", *arguments], cwd=project.folder, check=True)
    return project


def test_module_beside_rules_of_its_own(published, tmp_path):
    """Its settings may extend a file, and its own commands run as they are."""
    as_module(
        repr(str(published.folder / "workflow/Snakefile")),
        tmp_path / "outer",
        {"extends": str(published.folder / "alone.yaml")},
    )
    found = snakemake(tmp_path / "outer")
    assert found.returncode == 0, found.stdout
    assert (tmp_path / "outer" / "mine.txt").read_text().endswith("done\n")
    again = snakemake(tmp_path / "outer")
    assert "Nothing to be done" in again.stdout


def test_workflow_deployed_from_its_repository(published, tmp_path, alone):
    """Git reads a folder in place of the host, so that this is what happens with `github`, but for the network."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=published.folder, capture_output=True, text=True)
    as_module(
        f'github("someone/grid", path="workflow/Snakefile", commit="{commit.stdout.strip()}")',
        tmp_path / "outer",
        one_seed(alone),
    )
    (tmp_path / "gitconfig").write_text(
        f'[url "file://{published.folder}"]\n    insteadOf = https://github.com/someone/grid\n'
    )
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig")}
    found = snakemake(tmp_path / "outer", **elsewhere)
    assert found.returncode == 0, found.stdout
    record = json.loads((tmp_path / "outer" / RECORD).read_text())
    assert record["git_commit"] == commit.stdout.strip()
