"""What goes wrong from outside ends a training with a message that says what to do, and the next start goes on."""

import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from comparing import assert_alike, weights
from killing import attempt
from ready import TRAINING, ready

from lib.core.attempts import read_heartbeat
from lib.core.errors import RunError
from lib.core.record import read_record
from lib.study.run import Start
from lib.training import trainer as module
from lib.training.evaluate import evaluate
from lib.training.interruptions import OutOfMemoryError
from lib.training.predictor import Predictor
from lib.training.run import train
from lib.training.trainer import Trainer
from lib.workflow.preloaded import THREADS

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
SHARED = (sys.executable, "-m", "lib.workflow.start")
"""Before a command: a server runs it."""
OFTEN = {"checkpoint_minutes": 1e-6}
EPOCH = 192 // 8


@pytest.fixture(scope="module")
def run(run_of):
    return run_of("finetune", recipe={"epochs": 2, "batch_size": 8}, execution=OFTEN)


@pytest.fixture
def start(run, tmp_path):
    """Return a process that does `run` as the workflow starts it, with its log."""
    (tmp_path / "config.yaml").write_text(run.model_dump_json())
    processes = []

    def begin(*before, out="out", forked=False, **options):
        command = [*before, sys.executable, ROOT / "scripts" / "train.py", "--config", tmp_path / "config.yaml"]
        command += ["--out", tmp_path / out, "--work", tmp_path / "work"]
        log = tmp_path / f"{len(processes)}.log"
        environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)}
        if forked:  # signals other than requests to end stop what waits for the run, and not the run
            command, environment = ready(list(map(str, command)), environment, TRAINING)
        process = subprocess.Popen(command, stderr=log.open("w"), env=environment, **options)
        processes.append(process)
        return process, log

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def await_step(process, work, step):
    """Wait until the first attempt has made a checkpoint of a step."""
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, "the run ended before it could be disturbed"
        assert time.monotonic() < deadline
        steps = [int(path.parent.name.split("-")[1]) for path in work.glob("*/0001-*/checkpoint-*/manifest.json")]
        if max(steps, default=0) >= step:
            return
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "step"), [(signal.SIGTERM, 2 * EPOCH - 1), (signal.SIGUSR1, EPOCH + 5)])
def test_signal_while_it_trains(number, step, run, undisturbed, tmp_path, monkeypatch):
    """Also in the last step of an epoch: after the evaluation, whose row would be lost."""
    rarely = run.model_copy(update={"execution": run.execution.model_copy(update={"checkpoint_minutes": 60.0})})
    with monkeypatch.context() as context:
        train_on = Trainer.training_step

        def warn(self, *arguments):
            if self.progress.step == step:
                os.kill(os.getpid(), number)
            return train_on(self, *arguments)

        context.setattr(Trainer, "training_step", warn)
        with pytest.raises(RunError, match=f"ended by {number.name}"):
            train(rarely, tmp_path / "out")
    left = attempt(tmp_path / "out")
    assert (left / f"checkpoint-{step + 1}" / "manifest.json").is_file()
    heartbeat = read_heartbeat(left)
    assert heartbeat.state == "failed"
    assert heartbeat.error.startswith(f"ended by {number.name}")
    assert signal.getsignal(number) == signal.SIG_DFL
    train(rarely, tmp_path / "out")
    assert_alike(undisturbed, tmp_path / "out")


def test_signal_to_a_run_in_a_shared_process(start, undisturbed, tmp_path):
    process, log = start(sys.executable, ROOT / "scripts" / "preloaded.py", *SHARED)
    await_step(process, tmp_path / "work", EPOCH + 5)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(60) == 1
    assert "ended by SIGUSR1" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert "runs in its own process" not in log.read_text()
    again, log = start(sys.executable, ROOT / "scripts" / "preloaded.py", *SHARED)
    assert again.wait(120) == 0
    assert_alike(undisturbed, tmp_path / "out")


def test_two_processes_on_one_run(start, undisturbed, tmp_path):
    """A node that Slurm holds for dead while its process lives on; later the workflow takes this for a failed job."""
    first, first_log = start()
    await_step(first, tmp_path / "work", EPOCH + 5)
    first.send_signal(signal.SIGSTOP)
    second, second_log = start(forked=True)
    assert second.wait(120) == 0
    assert "taken over" in second_log.read_text()
    published = (tmp_path / "out" / "run.json").read_bytes()
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 1
    assert "another process has taken this run over" in first_log.read_text()
    assert (tmp_path / "out" / "run.json").read_bytes() == published
    assert_alike(undisturbed, tmp_path / "out")

    shutil.rmtree(tmp_path / "out")
    third, log = start(forked=True)
    assert third.wait(120) == 0
    assert f"checkpoint-{2 * EPOCH}" in next(line for line in log.read_text().splitlines() if "resuming from" in line)
    assert_alike(undisturbed, tmp_path / "out")


def test_full_disk(start, run, undisturbed, tmp_path):
    """The limit on a file's size stands for the limit of the disk: the same system call fails."""
    process, log = start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    assert process.wait(120) == 1
    assert "checkpoint-1: cannot be written" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "work").glob("*/*/checkpoint-*"))
    train(run, tmp_path / "out", tmp_path / "work")
    assert_alike(undisturbed, tmp_path / "out")


def test_worker_that_dies(run, tmp_path, monkeypatch):
    step = Trainer.training_step
    others = psutil.Process().children()
    workers = []

    def kill_worker(self, *arguments):
        if self.progress.step == EPOCH + 2 and not workers:
            workers.extend(process for process in psutil.Process().children() if process not in others)
            workers[0].kill()
        time.sleep(0.05)
        return step(self, *arguments)

    monkeypatch.setattr(Trainer, "training_step", kill_worker)
    run = run.model_copy(update={"execution": run.execution.model_copy(update={"workers": 1})})
    with pytest.raises(RunError, match="execution.job.mem_mb"):
        train(run, tmp_path / "out")
    assert list(attempt(tmp_path / "out").glob("checkpoint-*"))


@pytest.mark.parametrize("where", ["loss", "gradients"])
def test_steps_that_are_no_numbers(where, run, corpus, tmp_path, monkeypatch):
    seen = []

    def spoil(self, batch, number):
        if self.progress.step == EPOCH + 2 and self.non_finite == 0:
            seen.append(batch["input_ids"].shape[0])
            if where == "gradients":
                next(self.model.parameters()).register_hook(lambda gradient: gradient * float("inf"))
            else:
                with torch.no_grad():
                    next(self.model.parameters()).fill_(float("nan"))
        return step(self, batch, number)

    step = Trainer.training_step
    monkeypatch.setattr(Trainer, "training_step", spoil)
    monkeypatch.setattr(module, "NON_FINITE_STEPS", 4)
    rarely = run.model_copy(update={"execution": run.execution.model_copy(update={"checkpoint_minutes": 60.0})})
    with pytest.raises(RunError, match=f"step {EPOCH + 3}, 4 in a row") as raised:
        train(rarely, tmp_path / "out")
    names = str(raised.value).split(": ")[-1].split(", ")
    assert len(set(names)) == seen[0] == 8
    assert all(name.startswith("train-") for name in names)
    assert raised.value.diverged


def test_weights_that_are_no_numbers(run, tmp_path, monkeypatch):
    step = Trainer.training_step

    def spoil(self, batch, number):
        if self.progress.step == EPOCH + 2:
            with torch.no_grad():
                next(self.model.parameters()).fill_(float("nan"))
        return step(self, batch, number)

    monkeypatch.setattr(Trainer, "training_step", spoil)
    with pytest.raises(RunError, match=f"step {EPOCH + 3}, 1 in a row"):
        train(run, tmp_path / "out")
    assert max(int(path.name.split("-")[1]) for path in attempt(tmp_path / "out").glob("checkpoint-*")) == EPOCH + 2


class Memory:
    """A device on which more than some tokens at once do not fit: raises what torch raises there."""

    def __init__(self, monkeypatch, tokens, step=0):
        train_on = Trainer.training_step

        def allocate(trainer, batch, number):
            if batch["input_ids"].numel() > tokens and trainer.progress.step >= step:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
            return train_on(trainer, batch, number)

        monkeypatch.setattr(Trainer, "training_step", allocate)


def test_memory_that_does_not_suffice(run, tmp_path, monkeypatch):
    Memory(monkeypatch, tokens=4 * 26)
    with pytest.raises(RunError, match="208 tokens.*to 104.*auto_micro_batch"):
        train(run, tmp_path / "out")
    Memory(monkeypatch, tokens=0)
    one = run.model_copy(update={"execution": run.execution.model_copy(update={"micro_batch_tokens": 1})})
    with pytest.raises(RunError, match="max_tokens"):
        train(one, tmp_path / "out")


def test_micro_batch_halved_until_it_fits(run_of, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    dropouts = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    task = {"classifier_dropout": 0.0}
    settings = {"backbone": dropouts, "task": task, "recipe": {"epochs": 2, "batch_size": 8}}
    small = run_of("finetune", **settings, execution=OFTEN | {"micro_batch_tokens": 2 * 26})
    train(small, tmp_path / "small")
    Memory(monkeypatch, tokens=2 * 26, step=5)
    halving = run_of("finetune", **settings, execution=OFTEN | {"auto_micro_batch": True})
    train(halving, tmp_path / "out")
    assert re.findall(r"Lower it to (\d+)", caplog.text) == ["104", "52"]
    assert caplog.text.count("checkpoint-5") >= 2
    expected, found = read_record(tmp_path / "small"), read_record(tmp_path / "out")
    assert (found.steps, found.tokens) == (expected.steps, expected.tokens)
    assert [stretch.step for stretch in found.stretches] == [0, 5]
    assert "micro batch tokens" in found.mixed
    one, two = (weights(tmp_path / name / "model") for name in ("small", "out"))
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["steps"] == 2 * EPOCH


def evaluating_with(monkeypatch, most):
    """Let no more than `most` documents at once fit in an evaluation; return the numbers that were tried."""
    predict, tried = Predictor.prediction_step, []

    def allocate(predictor, batch):
        tried.append(len(batch["input_ids"]))
        if tried[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return predict(predictor, batch)

    monkeypatch.setattr(Predictor, "prediction_step", allocate)
    return tried


def test_evaluation_halved_until_it_fits(run_of, tmp_path, monkeypatch):
    """The batches of the training, single documents, have nothing to do with it; nor has a model trained before."""

    def documents_one_by_one(**execution):
        return run_of("finetune", recipe={"epochs": 1, "steps": 4, "batch_size": 1}, execution=execution)

    train(documents_one_by_one(), tmp_path / "undisturbed")
    tried = evaluating_with(monkeypatch, most=10)
    with pytest.raises(OutOfMemoryError, match="evaluation") as raised:
        train(documents_one_by_one(micro_batch_tokens=800), tmp_path / "named")
    assert raised.value.fitting == 400
    tried.clear()
    train(documents_one_by_one(auto_micro_batch=True), tmp_path / "out")
    assert max(tried) == 40 > tried[-1]
    start = Start(run="undisturbed", checkpoint=str(tmp_path / "undisturbed" / "model"))
    tried.clear()
    trained = documents_one_by_one(auto_micro_batch=True).model_copy(update={"recipe": None, "start": start})
    evaluate(trained, tmp_path / "evaluated")
    assert tried[0] > 10 >= tried[-1]
    again, first = (read_record(tmp_path / name).metrics for name in ("evaluated", "undisturbed"))
    assert again["test_loss"] == pytest.approx(first["test_loss"], abs=1e-5)
    expected, found = read_record(tmp_path / "undisturbed"), read_record(tmp_path / "out")
    assert found.steps == expected.steps == 4
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-5)
