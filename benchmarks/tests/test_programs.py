"""Every program runs once at tiny sizes, as a user starts it, and its table is summed up and drawn."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from ready import TRAINING, ready

from benchmarks.cost_page import refresh
from benchmarks.figures import FIGURES
from benchmarks.summaries import SUMMARIES
from benchmarks.tables import COLUMNS
from benchmarks.timing import interleaved
from lib.core.errors import DataError

pytestmark = pytest.mark.extended

MECHANISMS = json.dumps(
    {
        "sdpa": {"kind": "sdpa"},
        "lsh-h1-c16": {"kind": "lsh", "num_hashes": 1, "chunk_size": 16},
        "favor-m16": {"kind": "favor", "nb_features": 16},
    }
)
ENCODER = json.dumps({"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64})
LLAMA = {"model_type": "llama", "vocab_size": 200, "hidden_size": 32, "intermediate_size": 64}
TINY = json.dumps({"tiny": LLAMA | {"num_hidden_layers": 1, "num_attention_heads": 2}})
IDS = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "pad_token_id"), 1) | {
    "vocab_size": 300
}
MODERN = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 3}
CPU = ("--device", "cpu", "--dtype", "float32")
HEADS = ("--mechanisms", MECHANISMS, "--heads", 2, "--head-size", 16, *CPU)
LIMITED = ("--lengths", 32, 512, "--gibibytes", 0.001)
PROGRAMS = {
    "attention_cost": (*HEADS, "--lengths", 32, 64, "--seconds", 0.01),
    "training_cost": ("--mechanisms", MECHANISMS, "--encoder", ENCODER, "--batch", 1, "--documents", 4,
                      "--document-batch", 2, "--repetitions", 1, *CPU),
    "encoder_cost": ("--encoder", ENCODER, "--lengths", 32, 64, "--seconds", 0.01, *CPU),
    "adaptation_cost": ("--models", TINY, "--batch", 2, "--length", 32, "--repetitions", 1, *CPU),
    "sequence_cost": ("--mechanisms", MECHANISMS, "--encoder", ENCODER, "--seconds", 0.01, *LIMITED, *CPU),
    "memory_cost": (*HEADS, *LIMITED),
    "favor_error": ("--norms", 1, 2, "--lengths", 32, 64, "--features", 8, 16, "--head-size", 8, "--seeds", 0),
    "lsh_recall": ("--length", 64, "--chunk-sizes", 8, 16, "--hashes", 1, 2, "--head-size", 8, "--seeds", 0),
    "scan_cost": ("--lengths", 20, 70, "--tokens", 100, "--heads", 3, "--head-size", 8, "--state-size", 4,
                  "--seconds", 0.01, *CPU),
    "kernel_times": (*HEADS, "--lengths", 32, 64, "--tokens", 64),
    "busy_cost": ("--busy", 1, "--spins", 1000, "--mechanism", "sdpa", "--length", 16, "--tokens", 16, "--turns", 1),
    "linear_cost": ("--models", json.dumps({"tiny": MODERN | {"model_type": "bert"}}), "--length", 16, "--tokens", 32,
                    "--turns", 1),
    "windowed_cost": ("--lengths", 4096, "--encoder", json.dumps(MODERN | IDS), "--repetitions", 2),
    "grid_hours": ("--device", "cpu", "--models", "sdpa", "--encoder", ENCODER, "--seconds", 1),
}  # fmt: skip
OWN_PROCESSES = {
    "attention_cost", "training_cost", "adaptation_cost", "memory_cost", "busy_cost", "windowed_cost"
}  # fmt: skip
"""Programs that start further processes, which takes long."""
ERRORS = {"scan_cost": "error", "windowed_cost": "difference"}
"""Columns that say how far two implementations differ."""


@pytest.fixture(scope="module")
def run(repository):
    def run(name, *arguments):
        command = [sys.executable, f"benchmarks/{name}.py", *map(str, arguments)]
        command, environment = ready(command, os.environ | {"PYTHONPATH": str(repository)}, TRAINING)
        done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.study) if name in OWN_PROCESSES else name for name in PROGRAMS]
)
def test_tables_of_programs(name, run, tmp_path):
    file, summary = tmp_path / f"{name}.csv", tmp_path / f"{name}.md"
    run(name, *PROGRAMS[name], "--out", file)
    table = pd.read_csv(file)
    assert len(table)
    assert list(table) == COLUMNS.get(name, list(table))
    assert (table.get(ERRORS.get(name), pd.Series(0.0)) < 1e-5).all()
    if name in SUMMARIES:
        run("summaries", name, "--table", file, "--out", summary)
        assert summary.read_text().count("\n| ") > 2
    if "skipped" in table and name != "encoder_cost":
        assert set(table["skipped"].dropna()) == {"more than 0.001 GiB"}  # 3 x 2 x 512^2 x 4 bytes are 6 MiB
        assert "not measured: more than 0.001 GiB" in summary.read_text()
    for figure in [figure for figure, (_, measured) in FIGURES.items() if measured == name]:
        drawn = [tmp_path / f"{figure}.{suffix}" for suffix in ("svg", "png")]
        run("figures", figure, "--table", file, "--out", *drawn)
        assert all(each.stat().st_size > 5_000 for each in drawn)


def test_turns_of_computations():
    calls = []
    each = {name: lambda name=name: calls.append(name) for name in "abc"}
    seconds = interleaved(each, {"a": 3, "b": 1, "c": 2}, torch.device("cpu"))
    assert "".join(calls) == "abcaca"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 1, "c": 2}


def test_summary_in_a_page(run, tmp_path):
    page, summary = tmp_path / "page.md", tmp_path / "training_cost.md"
    begin, end = "<!-- training_cost: written by make bench-page -->", "<!-- end of training_cost -->"
    page.write_text(f"# Page\n{begin}\nold\n{end}\nrest\n")
    summary.write_text("NEW \\1 TABLE\n### Long\nrows\n### Short\nrow")
    run("cost_page", "--page", page, "--summaries", summary, "--without", "Long")
    assert page.read_text() == f"# Page\n{begin}\n\nNEW \\1 TABLE\n### Short\nrow\n\n{end}\nrest\n"
    with pytest.raises(DataError, match="no place for other"):
        refresh(page.read_text(), {"other": "text"})


@pytest.mark.slow
def test_first_minutes_on_a_gpu(repository, tmp_path):
    done = subprocess.run(
        ["bash", "benchmarks/gpu_first.sh", str(tmp_path / "out"), "all"],
        cwd=repository,
        env=os.environ | {"TEST_DEVICE": "cpu", "PYTHON": sys.executable, "WORKERS": "2"},
        capture_output=True,
        text=True,
    )
    parts = [line for line in done.stdout.splitlines() if line.startswith("== ")]
    assert len(parts) > 10
    assert all("status 0" in part for part in parts), done.stdout
