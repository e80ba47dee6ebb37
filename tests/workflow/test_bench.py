"""The measuring programs really run, at sizes that take seconds; `make bench` runs them at those that matter."""

import json
import subprocess
import sys

import pandas as pd
import pytest

MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh-h1-c16": {"kind": "lsh", "num_hashes": 1, "chunk_size": 16},
    "favor-m16": {"kind": "favor", "nb_features": 16},
}


@pytest.fixture
def script(repository):
    def run(name, *arguments):
        command = [sys.executable, f"scripts/{name}.py", *map(str, arguments)]
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_costs_are_measured_drawn_and_summed_up(script, tmp_path):
    costs, summary = tmp_path / "costs.csv", tmp_path / "costs.md"
    sizes = ["--heads", 2, "--head-size", 16, "--lengths", 32, 64, "--seconds", 0.01, "--device", "cpu"]
    script("attention_cost", "--mechanisms", json.dumps(MECHANISMS), *sizes, "--dtype", "float32", "--out", costs)
    table = pd.read_csv(costs)
    assert list(table.columns[:14]) == [
        "implementation", "mechanism", "length", "batch", "padding", "device", "dtype", "threads",
        "median_ms", "min_ms", "max_ms", "bytes_kept", "gemm_share", "peak_mb",
    ]  # fmt: skip
    assert list(dict.fromkeys(table["mechanism"])) == [*MECHANISMS, "sdpa-naive"]
    figures = [tmp_path / name for name in ("time.svg", "time.png", "memory.svg", "memory.png")]
    script("cost_figure", "--costs", costs, "--time", *figures[:2], "--memory", *figures[2:], "--summary", summary)
    assert all(figure.stat().st_size > 5_000 for figure in figures)
    assert "favor-m16" in figures[0].read_text()
    assert len(summary.read_text().splitlines()) == 2 + 5 + 2


def test_training_is_measured(script, tmp_path):
    out = tmp_path / "training.csv"
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    sizes = ["--batch", 1, "--documents", 4, "--review-batch", 2, "--repetitions", 1, "--device", "cpu"]
    script("training_cost", "--mechanisms", json.dumps(MECHANISMS), "--encoder", json.dumps(encoder), *sizes,
           "--dtype", "float32", "--out", out)  # fmt: skip
    table = pd.read_csv(out)
    assert list(table.columns[:7]) == [
        "implementation", "model", "step", "tokens", "median_ms", "tokens_per_s", "peak_mb"
    ]  # fmt: skip
    assert set(table["step"]) == {"mlm", "finetune_epoch", "finetune_epoch_padded"}


def test_the_bench_is_planned_beside_the_grid(copy_of_repository):
    planned = copy_of_repository("bench").snakemake("-n", "bench").stdout
    for rule in ("attention_cost", "training_cost", "favor_error", "lsh_recall"):
        assert f"\n{rule} " in planned
    assert "pretrain" not in planned
