"""What is stale is said in words, may be accepted, and a fresh clone onto finished results plans nothing."""

import json
import os
import random
import shutil

import pytest
from small_studies import changed

from lib.core.record import read_record
from lib.workflow.staleness.acceptance import read_accepted

CONFIG = "config.test.yaml"
RUN = "results/alone/runs/score/words/imdb/seed-1"
CLASSES, SCORES = (f"results/alone/tables/{name}.csv" for name in ("classes_imdb", "scores"))
BACKBONE, TABLE = "lib/backbones/tfidf/backbone.py", "lib/results/kinds/classes.py"
PREPARED = "results/alone/data/imdb/prepared/test.parquet"


def ask(project, name, *arguments, status):
    """Return what a program says, which ends with a status."""
    process = project.program(name, *arguments, "--configfile", CONFIG)
    assert process.returncode == status, process.stdout + process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout + process.stderr


def edit(project, file, old, new):
    path = project.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture(scope="module")
def done(copy_of_repository, alone):
    project = copy_of_repository("done")
    project.configure(alone)
    project.snakemake("--cores", 1, "--configfile", CONFIG)
    return project


@pytest.fixture
def project(done, copy_of_repository, alone):
    """A fresh clone onto finished results."""
    project = copy_of_repository("again")
    project.configure(alone)
    for part in ("results", ".snakemake"):
        shutil.copytree(done.folder / part, project.folder / part)
    return project


def test_what_is_stale_is_said_and_taken_if_all_of_it_is_there(project, alone):
    assert "nothing is stale" in ask(project, "why", status=0)
    project.configure(changed(alone, ("experiment/backbones/tfidf", {"kind": "tfidf", "max_features": 7})))
    edit(project, BACKBONE, "ngram_range=(1, ", "ngram_range=(2, ")
    edit(project, TABLE, "[list(columns)] *= 100", "[list(columns)] *= 101")
    edit(project, "workflow/rules/results.smk", "--out {output}", "--out  {output}")
    (project.folder / CLASSES).unlink()
    (project.folder / PREPARED).write_bytes((project.folder / PREPARED).read_bytes() + b"more")
    said = ask(project, "why", status=1)
    blocks = {block.splitlines()[0]: block for block in said.split("\n\n")}
    run = blocks["score/words/imdb, seed 1"]
    assert "score/words/imdb, seed 2" in run
    assert "setting backbone.max_features: from " in run
    assert f"code of {BACKBONE}: `" in run
    assert f"input {PREPARED} has changed" in run
    assert f"missing: {CLASSES}" in blocks["table classes_imdb"]
    assert "the command of the rule table_scores has changed" in blocks["table scores"]

    before = (project.folder / RUN / "run.json").read_bytes()
    assert "1 of its steps have to be made first" in ask(project, "accept", "all", status=2)
    assert not read_accepted(project.folder / "results/alone/code")
    assert "steps were accepted" in ask(project, "accept", SCORES, "--reason", "it's a test", status=0)
    assert project.stale(CONFIG, target=SCORES) == {}
    assert (project.folder / RUN / "run.json").read_bytes() == before
    (entry,) = read_accepted(project.folder / "results/alone/code")[RUN]
    assert (entry.reason, entry.settings) == ("it's a test", {"backbone.max_features": 7})
    assert entry.code != read_record(project.folder / RUN).code
    assert f"{RUN}: it's a test" in ask(project, "verify", status=1)  # a table is missing
    project.snakemake(CLASSES, "--cores", 1, "--configfile", CONFIG)
    verified = ask(project, "verify", status=0)
    assert "0 differ" in verified
    edit(project, BACKBONE, "ngram_range=(2, ", "ngram_range=(3, ")
    assert f"code of {BACKBONE}: `" in ask(project, "verify", status=1)


def test_a_part_of_a_run_that_is_gone_is_not_accepted(project):
    (project.folder / RUN / "predictions.parquet").unlink()
    assert "score/words/imdb, seed 1" in ask(project, "accept", "all", status=2)


def test_copied_results_are_taken_although_their_times_and_what_snakemake_knew_are_lost(project, alone):
    files = sorted(path for path in (project.folder / "results").rglob("*") if path.is_file())
    random.Random(0).shuffle(files)
    for seconds, path in enumerate(files):
        os.utime(path, (1_700_000_000 + seconds, 1_700_000_000 + seconds))
    shutil.rmtree(project.folder / ".snakemake/metadata")
    assert "finished steps are not in .snakemake/metadata" in ask(project, "why", status=1)
    ask(project, "accept", "all", status=0)
    assert project.stale(CONFIG) == {}
    new = project.configure(changed(alone, ("experiment/backbones/tfidf", {"kind": "tfidf", "max_features": 7})))
    assert project.stale(new)["evaluate"] == 2


def test_a_target_that_nothing_makes_is_an_error(done):
    assert "there is no plan for nowhere.csv" in ask(done, "why", "nowhere.csv", status=2)


def test_the_code_behind_every_digest_is_kept(done):
    kept = {path.stem for path in (done.folder / "results/alone/code").glob("*.json")}
    for path in done.folder.glob("results/alone/runs/**/run.json"):
        assert json.loads(path.read_text())["code"] in kept
