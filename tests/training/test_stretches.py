"""The record of a training that was resumed says under which conditions each part of it ran."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from killing import attempt, killed_at, killed_in

from lib.core.record import read_record
from lib.study.run import Start
from lib.training import folders
from lib.training import run as training_run
from lib.training.checkpoints import read_state, seal
from lib.training.predictor import Observer
from lib.training.run import train

ROOT = Path(__file__).resolve().parents[2]
STEPS = 2 * 192 // 32


@pytest.fixture(scope="module")
def run(run_of):
    """A fine-tuning of two epochs with a checkpoint at every step."""
    return run_of("finetune", recipe={"epochs": 2}, execution={"checkpoint_minutes": 1e-6})


@pytest.fixture(scope="module")
def killed_once(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    with killed_at(8):
        train(run, folder / "out")
    return folder


@pytest.fixture
def killed(killed_once, tmp_path):
    """Where `run` was killed at step 8; a copy."""
    shutil.copytree(killed_once / ".out.work", tmp_path / ".out.work")
    return tmp_path / "out"


@pytest.fixture
def threads():
    """Set the number of threads, and reset it."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def executed(run, **changes):
    return run.model_copy(update={"execution": run.execution.model_copy(update=changes)})


def steps(folder):
    return [stretch.step for stretch in read_record(folder).stretches]


def test_conditions_that_stay_the_same_make_one_stretch(run, killed, undisturbed):
    with killed_at(10):
        train(run, killed)
    train(executed(run, checkpoint_minutes=10.0, workers=1), killed)
    record, whole = read_record(killed), read_record(undisturbed)
    assert record.stretches == whole.stretches
    assert record.mixed is whole.mixed is None
    (stretch,) = record.stretches
    assert (stretch.step, stretch.threads, stretch.processes) == (0, torch.get_num_threads(), 1)
    assert stretch.execution == {
        "micro_batch_tokens": 32_768,
        "kernels": "auto",
        "compile": False,
        "deterministic": False,
    }
    assert (stretch.versions, stretch.hardware, stretch.device) == (record.versions, record.hardware, record.device)
    assert record.instruction_set == stretch.instruction_set == torch.backends.cpu.get_cpu_capability()


def test_every_change_of_conditions_begins_a_stretch(run, killed, threads):
    other = torch.get_num_threads() + 1
    threads(other)
    with killed_at(9):
        train(run, killed)
    train(executed(run, micro_batch_tokens=64), killed)
    record = read_record(killed)
    assert steps(killed) == [0, 8, 9]
    assert [stretch.threads for stretch in record.stretches] == [other - 1, other, other]
    assert record.mixed.count("from step") == 3
    assert f"from step 9: hardware {record.hardware}, micro batch tokens 64" in record.mixed
    assert not any(name in record.mixed for name in ("torch", "kernels", "device"))


@pytest.mark.parametrize("last", [8, STEPS])
def test_other_versions_and_instructions_begin_a_stretch(last, run, killed, undisturbed, tmp_path):
    """Also where all steps had been done, and only predictions were missing."""
    if last == STEPS:
        shutil.rmtree(tmp_path / ".out.work")
        with killed_in(training_run, "predict_splits"):
            train(run, killed)
    (tmp_path / "config.yaml").write_text(run.model_dump_json())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import datasets\ndatasets.__version__ = '99.0'\n")
    environment = {"PYTHONPATH": f"{ROOT}:{tmp_path / 'site'}", "ATEN_CPU_CAPABILITY": "default"}
    command = [sys.executable, ROOT / "scripts/train.py", "--config", tmp_path / "config.yaml", "--out", killed]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record, before = read_record(killed), read_record(undisturbed)
    assert steps(killed) == [0, last]
    assert [stretch.versions["datasets"] for stretch in record.stretches] == [before.versions["datasets"], "99.0"]
    assert [stretch.instruction_set for stretch in record.stretches] == [before.instruction_set, "DEFAULT"]
    assert f"from step {last}: " in record.mixed
    assert "instruction set DEFAULT" in record.mixed


def test_every_part_has_the_commit_at_which_its_process_began(run, tmp_path, monkeypatch, request):
    """Code may be committed while it trains. Another commit of the same code is no other condition."""
    request.addfinalizer(folders.git_commit.cache_clear)
    monkeypatch.setattr(folders, "__file__", str(tmp_path / "folders.py"))

    def git(*arguments):
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    class Commits(Observer):
        def began(self, trainer):
            git("commit", "-q", "--allow-empty", "-m", "meanwhile")

    git("init", "-q")
    Commits().began(None)
    commits = []
    for until in (killed_at(8), contextlib.nullcontext()):
        folders.git_commit.cache_clear()
        commits.append(git("rev-parse", "HEAD"))
        with until:
            train(run, tmp_path / "out", observers=[Commits()])
    record = read_record(tmp_path / "out")
    assert [stretch.git_commit for stretch in record.stretches] == commits
    assert (record.git_commit, record.mixed) == (commits[1], None)


def test_what_an_older_checkpoint_does_not_tell_is_unknown(run, killed):
    for checkpoint in attempt(killed).glob("checkpoint-*"):
        state = read_state(checkpoint)
        del state["stretches"]
        (checkpoint / "state.json").write_text(json.dumps(state))
        seal(checkpoint)
    train(run, killed)
    assert steps(killed) == [8]
    assert read_record(killed).mixed == "up to step 8: unknown"


def test_a_start_from_the_state_of_another_run_has_its_stretches(run, killed, threads, tmp_path):
    start = Start(run="other", checkpoint=str(attempt(killed) / "checkpoint-8"), load_only_model_state=False)
    started = run.model_copy(update={"start": start})
    train(started, tmp_path / "alike")
    assert steps(tmp_path / "alike") == [0]
    threads(torch.get_num_threads() + 1)
    train(started, tmp_path / "other")
    assert steps(tmp_path / "other") == [0, 8]
    weights = start.model_copy(update={"load_only_model_state": True})
    train(run.model_copy(update={"start": weights}), tmp_path / "weights")
    assert steps(tmp_path / "weights") == [0]


def test_a_kept_state_has_the_stretches_of_its_run(run, killed, threads, tmp_path):
    recipe = run.recipe.model_copy(update={"keep": ["last", "state"]})
    kept = run.model_copy(update={"recipe": recipe})
    with killed_at(9):
        train(kept, tmp_path / "kept")
    threads(torch.get_num_threads() + 1)
    train(kept, tmp_path / "kept")
    state = read_state(tmp_path / "kept" / "model" / "state")
    assert [stretch["step"] for stretch in state["stretches"]] == [0, 9] == steps(tmp_path / "kept")
