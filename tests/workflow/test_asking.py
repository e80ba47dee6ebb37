"""What is asked about finished results: why they are stale, whether they are as recorded, how far they are."""

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import pytest
import yaml
from code_digests import restored
from small_studies import TINY, changed

from lib.core.errors import DataError
from lib.core.files import file_digest
from lib.core.record import MODEL, RUN, read_record, write_run
from lib.study.configuration import load_study, read_layers
from lib.workflow.commands.verification import verify
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.acceptance import read_accepted

CONFIG = "config.test.yaml"
ADAPT, SCORE, WORDS = (
    f"results/tiny/runs/{place}/imdb/seed-1" for place in ("adapt/sdpa", "score/sdpa", "score/tfidf")
)
WHOLE = "results/tiny: 5 finished runs, 5 as recorded, 0 differ.\n"


def ask(project, name, *arguments, status=0):
    """Return what a program says, which ends with a status."""
    said, found = project.ask(name, *arguments, "--configfile", CONFIG)
    assert found == status, said
    return said


def blocks(said):
    """Return the blocks of an answer by their first lines."""
    return {block.splitlines()[0]: block for block in said.split("\n\n")}


def test_finished_results_are_whole(finished):
    assert ask(finished, "verify") == WHOLE
    assert "nothing is stale" in ask(finished, "why")
    lines = ask(finished, "status").splitlines()
    assert [line.split() for line in lines[2:5]] == [
        ["stage", "done", "running", "waiting", "failed", "missing"],
        ["adapt", "2", "0", "0", "0", "0"],
        ["score", "3", "0", "0", "0", "0"],
    ]
    assert "about 0.0 hours left" in lines[-1]
    assert "nowhere.csv" in ask(finished, "why", "nowhere.csv", status=2)


READ = (".arrow", ".parquet", "tokenizer.json")
"""How the names of files end that runs read, besides other runs."""


def test_flipped_byte_in_any_kind_of_file(finished):
    unseen = []
    with finished.here():
        plan = Plan(load_study(read_layers([CONFIG])))
        runs = f"{plan.paths.results}/runs"
        read = {path for run in plan.runs for path in (*plan.data(run).values(), *plan.tokenizer(run))}
        kinds = {}
        for file in sorted(file for place in (runs, *read) for file in [Path(place), *Path(place).rglob("*")]):
            if file.is_file() and (file.is_relative_to(runs) or file.name.endswith(READ)):
                kinds.setdefault(file.name if file.is_relative_to(runs) else file.suffix, file)
        assert len(kinds) > 10
        for file in kinds.values():
            with restored(file), contextlib.suppress(DataError):  # no record any more
                content = file.read_bytes()
                file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
                if not verify(plan.paths.results, plan.paths.code, plan).differing:
                    unseen.append(str(file))
    assert unseen == []


def test_changed_model_tokens_and_code_named(finished):
    model = finished.folder / ADAPT / MODEL / "model.safetensors"
    code = finished.folder / "lib/attention/lsh/mechanism.py"
    (tokens,) = (finished.results / "data/imdb/tokens/wordpiece/test").glob("*.arrow")
    with restored(model, code, tokens):
        for path in (model, code, tokens):
            content = path.read_bytes()
            path.write_bytes(content.replace(b"\nBLOCK = 16\n", b"\nBLOCK = 8\n") if path == code else content + b"0")
        said = ask(finished, "verify", status=1)
    found = blocks(said)
    assert "model/model.safetensors is not what the run left" in found[ADAPT]
    assert f"input start is not what the run read: {ADAPT}/model" in found[SCORE]
    assert "input test is not what the run read" in found[SCORE]
    lsh = [place for place in found if "lsh-h1-c16" in place]
    assert len(lsh) == 2
    assert all("code of lib/attention/lsh/mechanism.py: `BLOCK` changed" in found[place] for place in lsh)
    assert "code of" not in found[ADAPT]
    assert shlex.split(said.splitlines()[-1])[-2:] == ["--forcerun", f"{ADAPT}/run.json"]


def with_other_settings(folder):
    """Let a finished run and its record say that it trained with another learning rate; return the one planned."""
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    planned = settings["recipe"]["learning_rate"]
    settings["recipe"]["learning_rate"] = 0.25
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    record = read_record(folder)
    files = record.files | {"config.yaml": file_digest(folder / "config.yaml")}
    write_run(folder, record.model_copy(update={"files": files}))
    return planned


def test_other_settings_than_planned_named(finished, tmp_path):
    """Snakemake takes the run as up to date. It is behind a link, as where one disk was too small."""
    folder, stage = finished.folder / SCORE, finished.results / "runs/score"
    with restored(folder / RUN, folder / "config.yaml"):
        stage.rename(tmp_path / "elsewhere")
        stage.symlink_to(tmp_path / "elsewhere")
        try:
            assert ask(finished, "verify") == WHOLE
            planned = with_other_settings(folder)
            said = ask(finished, "verify", status=1)
            assert f"setting recipe.learning_rate: 0.25 in the run, {planned} in the plan" in blocks(said)[SCORE]
        finally:
            stage.unlink()
            (tmp_path / "elsewhere").rename(stage)


BACKBONE, TABLE = "lib/backbones/tfidf/backbone.py", "lib/results/kinds/classes.py"
CLASSES, F1 = (f"results/tiny/tables/{name}.csv" for name in ("classes_imdb", "f1"))
PREPARED = "results/tiny/data/imdb/prepared/test.parquet"
FEWER = changed(TINY, ("experiment/backbones/tfidf", {"kind": "tfidf", "max_features": 7}))


def edit(project, file, old, new):
    path = project.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_reasons_said_and_accepted(clone):
    project = clone("reasons")
    project.configure(FEWER)
    alone = blocks(ask(project, "why", status=1))["score/tfidf/imdb, seed 1"]
    assert alone.splitlines()[1:] == ["    setting backbone.max_features: from 20000 to 7"]
    edit(project, BACKBONE, "ngram_range=(1, ", "ngram_range=(2, ")
    edit(project, TABLE, "[list(columns)] *= 100", "[list(columns)] *= 101")
    edit(project, "workflow/rules/results.smk", "--out {output}", "--out  {output}")
    (project.folder / CLASSES).unlink()
    (project.folder / PREPARED).write_bytes((project.folder / PREPARED).read_bytes() + b"more")
    found = blocks(ask(project, "why", status=1))
    run = found["score/tfidf/imdb, seed 1"]
    assert "setting backbone.max_features: from " in run
    assert f"code of {BACKBONE}: `" in run
    assert f"input {PREPARED} has changed" in run
    assert f"missing: {CLASSES}" in found["table classes_imdb"]
    assert "the command of the rule table_f1 has changed" in found["table f1"]

    before = (project.folder / WORDS / RUN).read_bytes()
    assert "1 of its steps have to be made first" in ask(project, "accept", "all", status=2)
    (project.folder / WORDS / "predictions.parquet").rename(project.folder / "aside")
    assert "score/tfidf/imdb, seed 1" in ask(project, "accept", F1, status=2)
    (project.folder / "aside").rename(project.folder / WORDS / "predictions.parquet")
    begun = project.folder / ".snakemake/incomplete" / b64encode(f"{WORDS}/{RUN}".encode()).decode()
    begun.write_text('{"external_jobid": null}')  # as Snakemake notes it while a job is at work
    assert "1 of its steps have to be made first" in ask(project, "accept", F1, status=2)
    begun.unlink()
    assert not read_accepted(project.results / "code")
    assert "steps were accepted" in ask(project, "accept", F1, "--reason", "it's a test")
    assert project.stale(CONFIG, target=F1) == {}
    assert (project.folder / WORDS / RUN).read_bytes() == before
    (entry,) = read_accepted(project.results / "code")[WORDS]
    assert (entry.reason, entry.settings) == ("it's a test", {"backbone.max_features": 7})
    assert entry.code != json.loads(before)["code"]
    said = ask(project, "verify", status=1)  # a table is missing
    assert f"{WORDS}: it's a test" in said
    assert f"    {CLASSES}" in said
    assert "5 as recorded, 0 differ" in said
    edit(project, BACKBONE, "ngram_range=(2, ", "ngram_range=(3, ")
    assert f"code of {BACKBONE}: `" in ask(project, "verify", status=1)


@pytest.mark.extended
def test_copied_results_without_times_accepted(clone):
    """Neither their times nor what Snakemake knew of them came along."""
    project = clone("copied")
    files = sorted(path for path in (project.folder / "results").rglob("*") if path.is_file())
    random.Random(0).shuffle(files)
    for seconds, path in enumerate(files):
        os.utime(path, (1_700_000_000 + seconds, 1_700_000_000 + seconds))
    shutil.rmtree(project.folder / ".snakemake/metadata")
    assert "finished steps are not in .snakemake/metadata" in ask(project, "why", status=1)
    ask(project, "accept", "all")
    assert project.stale(CONFIG) == {}
    assert project.stale(project.configure(FEWER))["evaluate"] == 1


@pytest.mark.extended
def test_printed_command_makes_damaged_run_again(clone, repository):
    """The programs are processes here, and `make` starts one of them."""
    project = clone("damaged")
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(repository / name, project.folder)
    (project.folder / ".venv").mkdir()
    (project.folder / ".venv/.done").touch()
    predictions = project.folder / WORDS / "predictions.parquet"
    content = predictions.read_bytes()
    predictions.write_bytes(content + b"0")
    with_other_settings(project.folder / SCORE)
    done = project.program("verify", "--configfile", CONFIG)
    assert done.returncode == 1, done.stderr
    program, *words = shlex.split(done.stdout.splitlines()[-1])
    assert program == "snakemake"
    project.snakemake(*words)
    assert predictions.read_bytes() == content
    for name in ("verify", "why", "status"):
        assert project.program(name, "--configfile", CONFIG).returncode == 0, name
    predictions.write_bytes(b"0")
    command = ["make", "verify", f"CONFIG={CONFIG}", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode == 2  # make's own, for any command that fails
    shutil.rmtree(project.results / "tables")
    command[1] = "report"
    done = subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)
    assert done.returncode
    assert "marked for report but does not exist" in done.stderr


@pytest.mark.extended
def test_status_of_training_and_after_its_death(clone):
    project = clone("watched")
    settings = yaml.safe_load((project.folder / ADAPT / "config.yaml").read_text())
    settings["recipe"]["epochs"] = 100_000
    (project.folder / "long.yaml").write_text(yaml.safe_dump(settings))
    shutil.rmtree(project.folder / ADAPT)
    places = ("--config", "long.yaml", "--out", ADAPT, "--work", "results/tiny/work")
    log = project.results / "logs/adapt/sdpa/imdb/seed-1.log"
    with log.open("w") as output:
        streams = {"stdout": output, "stderr": subprocess.STDOUT}
        command = [sys.executable, "scripts/train.py", *places]
        training = subprocess.Popen(command, cwd=project.folder, env=project.environment, **streams)
    try:
        line = ""
        while len(line.split()) <= 4:  # the first beat comes before the first step, and has no loss yet
            assert training.poll() is None, log.read_text()
            time.sleep(0.5)
            said = ask(project, "status")
            line = next((line for line in said.splitlines() if "/100000" in line), "")
        assert line.startswith("adapt/sdpa/imdb/seed-1")
    finally:
        os.kill(training.pid, signal.SIGKILL)
        training.wait()
    assert "failed: adapt/sdpa/imdb/seed-1: dead: no heartbeat for" in ask(project, "status", status=1)
