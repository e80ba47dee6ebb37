"""The record of a training that was resumed says under which conditions each part of it ran."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from killing import killed_at, killed_in

from lib.core.record import read_record
from lib.training import run as training_run
from lib.training.run import train

pytestmark = pytest.mark.extended

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


def test_one_stretch_of_the_same_conditions(run, killed, undisturbed):
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


def test_stretches_of_other_conditions(run, killed, threads):
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


def test_stretches_of_other_versions(run, undisturbed, tmp_path):
    """Also where all steps had been done, and only predictions were missing."""
    killed, last = tmp_path / "out", STEPS
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
