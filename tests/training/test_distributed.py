"""Processes that share a training do what one does: the same steps, losses, scores and predictions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
import yaml
from comparing import same

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.study.run import RunSettings
from lib.training.run import train

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = 2
SHARED = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
SHARED += ["--nproc-per-node", str(PROCESSES)]
DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}
ENCODER = DROPOUTS | {"mechanism": {"kind": "sdpa"}}

# 192 documents in batches of 40, or of 7, which two processes cannot halve; the last batch of an epoch is not full.
# With 32 tokens, a document is a micro-batch, of which the second process has none left now and then.
RUNS = {
    "mlm-lsh": (
        "pretrain",
        {"backbone": DROPOUTS | {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}}},
        {"batch_size": 7, "evaluate_every": 14},
        {"micro_batch_tokens": 32},
    ),
    "classes-favor-frozen": (
        "finetune",
        {
            "backbone": DROPOUTS | {"mechanism": {"kind": "favor", "nb_features": 16, "redraw_interval": 3}},
            "task": {"classifier_dropout": 0.0},
        },
        {"batch_size": 40, "epochs": 2, "freeze_layers": 1},
        {"micro_batch_tokens": 320},
    ),
    # The last batch of an epoch has one document, so that the second process has no weight of a class.
    "classes-patience": (
        "finetune",
        {"backbone": ENCODER, "task": {"classifier_dropout": 0.0}},
        {"batch_size": 191, "epochs": 4, "evaluate_every": 1, "patience": 2, "class_weights": {"high": 3.0}},
        {"micro_batch_tokens": 320},
    ),
    "words-lora": (
        "tag",
        {"backbone": ENCODER, "task": {"classifier_dropout": 0.0}},
        {"batch_size": 7, "lora": {"r": 4, "dropout": 0.0}, "max_grad_norm": 0.1},
        {"micro_batch_tokens": 96, "workers": 1},
    ),
    "states-favor": (
        "imitate",
        {"backbone": DROPOUTS, "task": {"layers": "all"}},
        {"batch_size": 7},
        {"micro_batch_tokens": 64},
    ),
}
SPEED = ["seconds", "tokens_per_second", "peak_memory_mb"]


def values_of(settings, imitation, name):
    stage, changes, recipe, execution = RUNS[name]
    changes |= {"model": name, "recipe": {"epochs": 1} | recipe, "execution": {"device": "cpu"} | execution}
    return imitation(**changes) if stage == "imitate" else settings(stage, **changes)


def environment():
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def folder(settings, imitation, tmp_path_factory):
    """Where the runs have been trained by one process, `one/<name>`, and by two, `two/<name>`."""
    folder = tmp_path_factory.mktemp("ranks")
    pairs = []
    for name in RUNS:
        values = values_of(settings, imitation, name)
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(values))
        train(RunSettings.model_validate(values), folder / "one" / name)
        pairs += [path, folder / "two" / name]
    command = [sys.executable, *SHARED, ROOT / "tests/helpers/train_all.py", *pairs]
    process = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_two_processes_as_one(name, folder):
    one, two = (folder / number / name for number in ("one", "two"))
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    assert not list(two.parent.glob(".*")), "working checkpoints stay behind"
    alone, shared = read_record(one), read_record(two)
    assert (shared.steps, shared.epochs, shared.tokens) == (alone.steps, alone.epochs, alone.tokens)
    assert bool(shared.saved_steps) == ("patience" in name)
    assert (alone.processes, shared.processes) == (1, PROCESSES)
    assert [(each.step, each.processes) for each in shared.stretches] == [(0, PROCESSES)]
    curves = [pd.read_csv(each / "history.csv").drop(columns=SPEED) for each in (one, two)]
    curves = [curve.drop(columns=[column for column in curve if column.endswith("_seconds")]) for curve in curves]
    pd.testing.assert_frame_equal(*curves, check_exact=False, rtol=1e-5, atol=1e-4)
    scores = [
        {key: value for key, value in record.metrics.items() if not key.endswith("_seconds")}
        for record in (alone, shared)
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5, abs=1e-4)
    if (one / "predictions.parquet").exists():
        first, second = (pd.read_parquet(each / "predictions.parquet") for each in (one, two))
        assert second[["split", "id"]].equals(first[["split", "id"]])
        for column in first:
            pairs = zip(first[column], second[column], strict=True)
            if column == "probabilities":
                assert all(np.allclose(*pair, rtol=0, atol=1e-4) for pair in pairs)
            else:
                assert all(np.array_equal(*pair) for pair in pairs), column


@pytest.mark.slow
def test_killed_run_of_two_processes(settings, tmp_path):
    """One of the processes is killed in the second epoch; with dropout, whose draws differ from process to process."""
    values = settings("finetune", recipe={"batch_size": 8}, execution={"device": "cpu", "checkpoint_minutes": 1e-6})
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(values))

    def command(out):
        return [sys.executable, *SHARED, ROOT / "scripts/train.py", "--config", config, "--out", tmp_path / out]

    subprocess.run(command("whole"), check=True, env=environment(), capture_output=True)
    log = tmp_path / "killed.log"
    with log.open("w") as stream:
        process = subprocess.Popen(command("killed"), env=environment(), stderr=stream)
    deadline = time.monotonic() + 120
    states = []
    while not any(int(path.parent.name.split("-")[1]) > 192 // 8 + 5 for path in states):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        states = list((tmp_path / ".killed.work").glob("*/*/checkpoint-*/manifest.json"))
        time.sleep(0.02)
    os.kill(psutil.Process(process.pid).children()[-1].pid, signal.SIGKILL)
    assert process.wait() != 0
    assert not (tmp_path / "killed").exists()
    assert "exitcode  : -9" in log.read_text()

    checkpoint = max(
        (tmp_path / ".killed.work").glob("*/*/checkpoint-*"), key=lambda path: int(path.name.split("-")[1])
    )
    first, second = (torch.load(checkpoint / f"rng_state_{i}.pth", weights_only=False)["cpu"] for i in range(PROCESSES))
    assert not torch.equal(first, second)
    with pytest.raises(RunError, match=r"written by 2 process.*but 1 are.*execution.gpus_per_run to 2"):
        train(RunSettings.model_validate(yaml.safe_load(config.read_text())), tmp_path / "killed")

    again = subprocess.run(command("killed"), env=environment(), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("resuming from") == 1
    assert same(tmp_path / "whole" / "model", tmp_path / "killed" / "model")
    records = [read_record(tmp_path / name) for name in ("whole", "killed")]
    assert (records[0].tokens, records[0].metrics) == (records[1].tokens, records[1].metrics)
