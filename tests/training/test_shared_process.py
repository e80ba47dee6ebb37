"""A training is the same whichever process runs it."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

from lib.workflow.preloaded import THREADS

ROOT = Path(__file__).resolve().parents[2]


def test_a_training_in_a_shared_process_is_bit_identical(config_file, tmp_path):
    program = ROOT / "scripts" / "train.py"
    lsh = {"mechanism": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8}}
    arguments = ["--config", str(config_file("pretrain", backbone=lsh))]
    runpy.run_path(str(program))["main"]([*arguments, "--out", str(tmp_path / "own")])
    command = [
        sys.executable,
        "-m",
        "lib.workflow.start",
        sys.executable,
        program,
        *arguments,
        "--out",
        tmp_path / "shared",
    ]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "preloaded.py", *command],
        env=os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "runs in its own process" not in done.stderr
    own, shared = ((tmp_path / run / "model" / "model.safetensors").read_bytes() for run in ("own", "shared"))
    assert own == shared
