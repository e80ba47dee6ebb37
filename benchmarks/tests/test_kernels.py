"""Triton kernels become machine code of GPUs, on a machine without one.

For Hopper, where less may spill; the same for Ampere, and for wide heads, is among the slow tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[2]
MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64},
    "favor-m64": {"kind": "favor", "nb_features": 64},
}


def program(*arguments, **environment):
    """Run the program in a process of its own, where Triton compiles unless told otherwise."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [
        sys.executable,
        ROOT / "benchmarks/kernel_resources.py",
        "--mechanisms",
        json.dumps(MECHANISMS),
        *arguments,
    ]
    environment = inherited | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("architecture", "spilled"),
    [(90, 64), pytest.param(80, 320, marks=pytest.mark.slow)],  # 320: the gradients of LSH with dropout
)
def test_resources_of_kernels(architecture, spilled, tmp_path):
    """On Hopper hardly anything spills, and two programs at least share the memory of a processor."""
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    sizes = ("--length", "300", "--dropout", "0.1", "--architectures", str(architecture))
    done = program(*sizes, "--out", str(tmp_path / "table.csv"))
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "table.csv")
    assert set(table["mechanism"]) == {"lsh-h2-c64", "favor-m64", "ssm"}
    assert set(table["architecture"]) == {architecture}
    both = table.groupby("mechanism")["kernel"].agg(set)
    assert {"_hash", "_forward", "_backward"} <= both["lsh-h2-c64"]
    assert {"_summarise_kernel", "_attend_kernel", "_key_gradients_kernel"} <= both["favor-m64"]
    assert {"_sums_kernel", "_states_kernel", "_passing_kernel", "_outputs_kernel", "_directions_kernel"} < both["ssm"]
    assert table["registers"].between(16, 255).all()
    assert table["spilled_bytes"].max() <= spilled
    assert table["shared_kib"].max() <= 80


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_resources_of_wide_heads(dtype, tmp_path):
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    many = {
        "lsh-h4-c128": {"kind": "lsh", "num_hashes": 4, "chunk_size": 128},
        "lsh-h1-c24": {"kind": "lsh", "num_hashes": 1, "chunk_size": 24, "mask_within_chunks": True},
        "favor-m512": {"kind": "favor", "nb_features": 512},
    }
    few = {"window-w64-g100": {"kind": "window", "width": 64, "global_tokens": 100}}
    for mechanisms, dropout in ((many, "0.1"), (few, "0")):
        options = ("--mechanisms", json.dumps(mechanisms), "--head-size", "128", "--dtype", dtype, "--alibi")
        done = program(*options, "--dropout", dropout, "--out", str(tmp_path / "table.csv"))
        assert done.returncode == 0, done.stderr
        table = pd.read_csv(tmp_path / "table.csv")
        assert set(table["mechanism"]) == {*mechanisms, "ssm"}
        assert table["shared_kib"].max() <= 110
