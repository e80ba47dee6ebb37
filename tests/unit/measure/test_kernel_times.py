"""Where the time of a pass goes, and launches tried; torch's operations stand for kernels where there is no GPU."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest

from lib.attention.kernels import Launch
from lib.measure.implementations import own_cases
from lib.measure.kernels import (
    FILLED,
    HOST,
    PASS,
    _fits,
    _launched,
    best,
    kernel_times,
    sweep,
)
from lib.measure.tables import COLUMNS

MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh-h2-c64": {"kind": "lsh", "num_hashes": 2, "chunk_size": 64},
    "lsh-h2-c8": {"kind": "lsh", "num_hashes": 2, "chunk_size": 8},
    "favor-m64": {"kind": "favor", "nb_features": 64},
    "window-w16-g1": {"kind": "window", "width": 16, "global_tokens": 1},
}
SIZES = {
    "lengths": [64, 32],
    "tokens": 64,
    "heads": 2,
    "head_size": 16,
    "padding": "ragged",
    "device": "cpu",
    "dtype": "float32",
}


def test_a_row_for_every_case_and_operation():
    table = kernel_times(list(own_cases(MECHANISMS, **SIZES)))
    assert list(table) == COLUMNS["kernel_times"]
    assert set(zip(table["mechanism"], table["length"], table["batch"], strict=True)) == {
        (name, length, 64 // length) for name in MECHANISMS for length in (64, 32)
    }
    assert (table["kernels"] == "torch").all()
    for _, rows in table.groupby(["mechanism", "length"]):
        parts = rows[~rows["kernel"].isin([PASS, FILLED, HOST])]
        assert (parts[["calls", "us"]] > 0).all(axis=None)
        assert len(parts) > 3
        times = rows.set_index("kernel")["us"]
        assert times[PASS] > 0
        assert pd.isna(times[HOST])  # a CPU launches nothing
    sorts = table[(table["mechanism"] == "lsh-h2-c8") & (table["kernel"] == "aten::sort")]
    assert (sorts["calls"] == 1).all()
    assert len(sorts) == 2


@pytest.fixture
def by_triton():
    pytest.importorskip("triton", reason="without triton: make .venv/.kernels")
    sizes = SIZES | {"lengths": [20], "tokens": 20}
    (case,) = own_cases({"lsh-h2-c64": MECHANISMS["lsh-h2-c64"]}, **sizes)
    return [replace(case, kernels="triton")]


def test_all_kernels_are_launched_as_the_candidate_says_and_as_before_afterwards(by_triton):
    from lib.attention.lsh import kernels

    before = {size: dict(each) for size, each in kernels.LAUNCHES.items()}
    with _launched(by_triton[0], Launch(16, 16, 1, 1)) as module:
        assert module is kernels
        assert {launch for each in kernels.LAUNCHES.values() for launch in each.values()} == {Launch(16, 16, 1, 1)}
    assert before == kernels.LAUNCHES


def test_candidates_that_do_not_fit_are_found_out(by_triton, caplog):
    assert _fits(by_triton[0], Launch(16, 16, 1, 1))
    caplog.set_level("INFO")
    assert not _fits(by_triton[0], Launch(24, 16, 1, 1))  # tiles are powers of two
    assert "Launch(rows=24, columns=16, warps=1, stages=1)" in caplog.text
    assert sweep(by_triton, workers=1, seconds=0, candidates=[Launch(16, 16, 1, 1)]).empty
    assert "no time is left for Launch(rows=16" in caplog.text


def test_the_three_fastest_of_each_kernel():
    rows = [("lsh", 64, 1, kernel, 16, 16, 1, stages, us) for kernel in "ab" for stages, us in enumerate((4, 2, 3, 1))]
    found = best(pd.DataFrame(rows, columns=COLUMNS["kernel_sweep"]))
    assert found["us"].tolist() == [1, 2, 3, 1, 2, 3]


def test_one_pass_of_each_measures_nothing(repository, tmp_path):
    command = [sys.executable, "scripts/tools/kernel_times.py", "--once", "--device", "cpu", "--dtype", "float32"]
    sizes = ["--lengths", "40", "--tokens", "80", "--head-size", "8", "--names", "lsh-h2-c64", "favor-m64"]
    done = subprocess.run(
        [*command, *sizes, "--out", str(tmp_path / "none.csv")],
        cwd=repository,
        env={"PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.slow
def test_the_first_minutes_on_a_gpu_run_to_their_end_without_one(repository, tmp_path):
    done = subprocess.run(
        ["bash", "scripts/tools/gpu_first.sh", str(tmp_path / "out"), "all"],
        cwd=repository,
        env=os.environ | {"TEST_DEVICE": "cpu", "PYTHON": sys.executable, "WORKERS": "2"},
        capture_output=True,
        text=True,
    )
    parts = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    assert parts
    assert all("status 0" in part for part in parts), done.stdout
    tables = {
        *("training", "training-short", "epochs", "attention_window", "scan_cost", "grid_hours_compiled"),
        *("attention_few", "kernel_times", "sweep", "grid_hours", "attention_cost"),
    }
    assert {f"{name}.csv" for name in tables} <= {path.name for path in (tmp_path / "out").iterdir()}


def first_minutes(repository, folder, *parts, **environment):
    return subprocess.run(
        ["bash", "scripts/tools/gpu_first.sh", str(folder), *parts],
        cwd=repository,
        env=os.environ | {"TEST_DEVICE": "cpu", "PYTHON": "true"} | environment,
        capture_output=True,
        text=True,
    ).stdout


def test_the_first_minutes_have_the_named_parts_alone_and_end_in_time(repository, tmp_path):
    assert re.findall("== (.*): status 0", first_minutes(repository, tmp_path, "scan", "machine")) == [
        "machine",
        "scan",
    ]
    first = re.findall("== (.*): status 0", first_minutes(repository, tmp_path))
    assert first[:3] == ["machine", "tests", "training"]
    every = re.findall("== (.*): status 0", first_minutes(repository, tmp_path, "all"))
    assert set(first) < set(every)
    assert "== machine: no time is left" in first_minutes(repository, tmp_path, TOTAL="0")
