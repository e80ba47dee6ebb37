"""Finished results are compared with their records, and a training under way is seen from outside."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from lib.core.errors import DataError
from lib.core.files import file_digest
from lib.core.record import MODEL, RUN, read_record, write_run
from lib.study.configuration import load_study, read_layers
from lib.workflow.commands.verification import verify
from lib.workflow.planning.plan import Plan

CONFIG = "config.test.yaml"
PRETRAIN, FINETUNE = (
    f"results/demo/runs/{place}/seed-420" for place in ("pretrain/sdpa/wikipedia", "finetune/sdpa/imdb")
)


@pytest.fixture(scope="module")
def project(clone):
    return clone("watched", "results", ".snakemake")


def ask(project, name):
    """Return what a program says, and its exit status."""
    process = project.program(name, "--configfile", CONFIG)
    assert "Traceback" not in process.stderr, process.stderr
    return process.stdout, process.returncode


def make(project, target):
    """Return what `make` did in an environment that is there."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(Path(__file__).parents[2] / name, project.folder)
    (project.folder / ".venv").mkdir(exist_ok=True)
    (project.folder / ".venv/.done").touch()
    command = ["make", target, f"CONFIG={CONFIG}", f"BIN={Path(sys.executable).parent}"]
    return subprocess.run(command, cwd=project.folder, env=project.environment, capture_output=True, text=True)


def test_finished_results_are_as_recorded(project):
    assert ask(project, "verify") == ("results/demo: 10 finished runs, 10 as recorded, 0 differ.\n", 0)


def test_runs_behind_a_linked_folder_are_compared(project, tmp_path):
    stage = (project.folder / FINETUNE).parents[2]
    stage.rename(tmp_path / "elsewhere")
    stage.symlink_to(tmp_path / "elsewhere")
    record = project.folder / FINETUNE / RUN
    kept = record.read_text()
    try:
        assert ask(project, "verify") == ("results/demo: 10 finished runs, 10 as recorded, 0 differ.\n", 0)
        record.write_text(kept.replace('"seconds": ', '"seconds": 1'))
        said, status = ask(project, "verify")
        assert (status, f"{FINETUNE}\n    {RUN} has changed since the run" in said) == (1, True), said
    finally:
        record.write_text(kept)
        stage.unlink()
        (tmp_path / "elsewhere").rename(stage)


def test_finished_results_are_done(project):
    said, status = ask(project, "status")
    assert status == 0
    assert [line.split() for line in said.splitlines()[2:6]] == [
        ["stage", "done", "running", "waiting", "failed", "missing"],
        ["pretrain", "3", "0", "0", "0", "0"],
        ["tapt", "3", "0", "0", "0", "0"],
        ["finetune", "4", "0", "0", "0", "0"],
    ]
    assert "about 0.0 hours left" in said


def test_what_differs_from_the_records_is_named(project):
    model = project.folder / PRETRAIN / MODEL / "model.safetensors"
    tokens = project.results / "data" / "imdb" / "tokens" / "wordpiece" / "test"
    code = project.folder / "lib/attention/lsh/mechanism.py"
    kept = {path: path.read_bytes() for path in (model, code, next(tokens.glob("*.arrow")))}
    try:
        for path, content in kept.items():
            path.write_bytes(content.replace(b"\nBLOCK = 16\n", b"\nBLOCK = 8\n") if path == code else content + b"0")
        said, status = ask(project, "verify")
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
    assert status == 1
    blocks = {block.splitlines()[0]: block for block in said.split("\n\n")}
    assert "model/model.safetensors is not what the run left" in blocks[PRETRAIN]
    assert (
        f"input start is not what the run read: {PRETRAIN}/model"
        in blocks[PRETRAIN.replace("pretrain", "tapt").replace("wikipedia", "imdb")]
    )
    assert "input test is not what the run read" in blocks[FINETUNE]
    lsh = [place for place in blocks if "lsh-h2-c64" in place]
    assert len(lsh) == 3
    assert all("code of lib/attention/lsh/mechanism.py: `BLOCK` changed" in blocks[place] for place in lsh)
    assert "code of" not in blocks[PRETRAIN]
    assert said.splitlines()[-1].endswith(f" --forcerun {PRETRAIN}/run.json")


READ = (".arrow", ".parquet", "tokenizer.json")
"""How the names of files end that runs read, besides other runs."""


def test_a_flipped_byte_is_seen_in_every_kind_of_file_of_a_run_and_of_what_it_reads(project, monkeypatch):
    monkeypatch.chdir(project.folder)
    plan = Plan(load_study(read_layers([CONFIG])))
    read = {path for run in plan.runs for path in (*plan.data(run).values(), *plan.tokenizer(run))}
    files = [file for place in (plan.paths.results + "/runs", *read) for file in [Path(place), *Path(place).rglob("*")]]
    kinds = {}
    for file in sorted(file for file in files if file.is_file()):
        if file.is_relative_to(f"{plan.paths.results}/runs"):
            kinds.setdefault(file.name, file)
        elif file.name.endswith(READ):
            kinds.setdefault(READ.index(next(end for end in READ if file.name.endswith(end))), file)
    assert len(kinds) > 10
    unseen = []
    for file in kinds.values():
        before, status = file.read_bytes(), file.stat()
        file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        with contextlib.suppress(DataError):  # no record any more
            if not verify(plan.paths.results, plan.paths.code, plan).differing:
                unseen.append(str(file))
        file.write_bytes(before)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert unseen == []
    assert not verify(plan.paths.results, plan.paths.code, plan).differing


def test_what_the_plan_has_and_the_results_lack_is_missing(clone):
    project = clone("lacking", "results", ".snakemake")
    shutil.rmtree(project.folder / FINETUNE)
    (project.results / "tables/f1.md").unlink()
    said, status = ask(project, "verify")
    assert status == 1
    assert "Missing, 2 files" in said
    assert f"    {FINETUNE}/run.json" in said
    assert "    results/demo/tables/f1.md" in said


def test_a_run_with_other_settings_than_the_plans_is_named(clone):
    """Snakemake alone takes it as up to date: it compares what it planned then with what it plans now."""
    project = clone("otherwise", "results", ".snakemake")
    folder = project.folder / FINETUNE
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    planned = settings["recipe"]["learning_rate"]
    settings["recipe"]["learning_rate"] = 0.25
    times = {path: path.stat() for path in (folder / "config.yaml", folder / RUN)}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))
    record = read_record(folder)
    files = record.files | {"config.yaml": file_digest(folder / "config.yaml")}
    write_run(folder, record.model_copy(update={"files": files}))
    for path, status in times.items():
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    said, status = ask(project, "verify")
    assert status == 1, said
    assert f"setting recipe.learning_rate: 0.25 in the run, {planned} in the plan" in said
    command = shlex.split(said.splitlines()[-1])
    project.snakemake(*command[1:])
    assert ask(project, "why")[1] == 0
    assert ask(project, "verify")[1] == 0


def test_the_command_that_verify_prints_makes_a_damaged_run_again(clone):
    project = clone("damaged", "results", ".snakemake")
    predictions = project.folder / "results/demo/runs/finetune/tfidf/imdb/seed-420/predictions.parquet"
    content = predictions.read_bytes()
    predictions.write_bytes(content + b"0")
    said, status = ask(project, "verify")
    assert status == 1
    assert make(project, "verify").returncode == 2  # make's own, for any command that fails
    program, *words = shlex.split(said.splitlines()[-1])
    assert program == "snakemake"
    project.snakemake(*words)
    assert predictions.read_bytes() == content
    assert make(project, "verify").returncode == 0
    assert project.stale(CONFIG) == {}


def test_a_report_of_an_unfinished_study_says_what_is_missing(copy_of_repository, alone):
    project = copy_of_repository("unfinished")
    project.configure(alone)
    process = make(project, "report")
    assert process.returncode
    assert re.search(r"results/alone/tables/\S+ marked for report but does not exist", process.stderr), process.stderr
    assert "Report:" not in process.stdout


def test_a_training_is_seen_while_it_runs_and_after_its_death(project):
    settings = yaml.safe_load((project.folder / PRETRAIN / "config.yaml").read_text())
    settings["recipe"]["epochs"] = 100_000
    (project.folder / "long.yaml").write_text(yaml.safe_dump(settings))
    (project.folder / PRETRAIN).rename(project.folder / "aside")
    command = [sys.executable, "scripts/train.py", "--config", "long.yaml", "--out", PRETRAIN]
    log = project.results / "logs/pretrain/sdpa/wikipedia/seed-420.log"
    with log.open("w") as output:
        training = subprocess.Popen(
            [*command, "--work", "results/demo/work"],
            cwd=project.folder,
            env=project.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + 120
        line = ""
        while len(line.split()) <= 4:  # the first beat comes before the first step, and has no loss yet
            said = ask(project, "status")[0]
            line = next((line for line in said.splitlines() if "/100000" in line), "")
            assert time.monotonic() < deadline, said + log.read_text()
            assert training.poll() is None, log.read_text()
        assert line.startswith("pretrain/sdpa/wikipedia/seed-420")
        assert "pretrain                        2        1        0        0" in said
    finally:
        os.kill(training.pid, signal.SIGKILL)
        training.wait()
    said, status = ask(project, "status")
    assert status == 1
    assert "failed: pretrain/sdpa/wikipedia/seed-420: dead: no heartbeat for" in said
    assert not (project.folder / PRETRAIN / RUN).exists()
    (project.folder / "aside").rename(project.folder / PRETRAIN)
