"""A run killed in the middle and started again ends bit-identical to one that was left alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from lib.core.record import read_record

SPEED = ["seconds", "tokens_per_second", "peak_memory_mb"]
STEPS_AN_EPOCH = 192 // 8
ONE_CYCLE = {"schedule": "one_cycle"}
ROOT = Path(__file__).resolve().parents[2]


def command(config, out):
    return [sys.executable, str(ROOT / "scripts" / "train.py"), "--config", str(config), "--out", str(out)]


@pytest.mark.parametrize(
    ("stage", "backbone", "recipe"),
    [
        ("pretrain", {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}}, {}),
        ("finetune", {"mechanism": {"kind": "favor", "nb_features": 16, "redraw_interval": 3}}, ONE_CYCLE),
        ("pretrain", {"kind": "recurrent", "hidden_size": 32, "num_hidden_layers": 2}, {}),
        ("tag", {"mechanism": {"kind": "sdpa"}}, ONE_CYCLE | {"steps": 41, "evaluate_every": 7}),
        ("tag", {"mechanism": {"kind": "sdpa"}}, {"lora": {"r": 4}}),
    ],
)
def test_a_killed_run_resumes_exactly(stage, backbone, recipe, config_file, tmp_path):
    # A checkpoint at every step, in epochs long enough to be killed in the middle of one.
    config = config_file(
        stage,
        backbone=backbone,
        recipe={"epochs": 2, "batch_size": 8} | recipe,
        execution={"checkpoint_minutes": 1e-6},
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    subprocess.run(command(config, tmp_path / "whole"), check=True, env=environment, capture_output=True)

    process = subprocess.Popen(command(config, tmp_path / "killed"), env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be killed"
        steps = [
            int(path.parent.name.split("-")[1])
            for path in (tmp_path / ".killed.work").glob("*/checkpoint-*/trainer_state.json")
        ]
        if max(steps, default=0) > STEPS_AN_EPOCH + 5:  # in the middle of the second epoch
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed").exists()

    again = subprocess.run(command(config, tmp_path / "killed"), env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "resuming from" in again.stderr

    whole, killed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed"))
    assert whole.keys() == killed.keys()
    for name, weight in whole.items():
        assert torch.equal(weight, killed[name]), name
    histories = [pd.read_csv(tmp_path / name / "history.csv").drop(columns=SPEED) for name in ("whole", "killed")]
    pd.testing.assert_frame_equal(*histories, rtol=1e-6)
    records = [read_record(tmp_path / name) for name in ("whole", "killed")]
    assert records[0].tokens == records[1].tokens
    assert records[0].metrics == pytest.approx(records[1].metrics)
    assert not list(tmp_path.glob(".*.work")), "working checkpoints stay behind"
