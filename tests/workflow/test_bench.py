"""The measuring programs really run, at sizes that take seconds; `make bench` runs them at those that matter."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from cost_tables import markdown_tables
from ready import TRAINING, ready

pytestmark = pytest.mark.study

MECHANISMS = {
    "sdpa": {"kind": "sdpa"},
    "lsh-h1-c16": {"kind": "lsh", "num_hashes": 1, "chunk_size": 16},
    "favor-m16": {"kind": "favor", "nb_features": 16},
}


@pytest.fixture
def script(repository):
    def run(name, *arguments):
        command = [sys.executable, f"scripts/{name}.py", *map(str, arguments)]
        command, environment = ready(command, os.environ | {"PYTHONPATH": str(repository)}, TRAINING)
        done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    return run


def test_costs_are_measured_drawn_and_summed_up(script, tmp_path):
    costs, summary = tmp_path / "attention_cost.csv", tmp_path / "attention_cost.md"
    sizes = ["--heads", 2, "--head-size", 16, "--lengths", 32, 64, "--seconds", 0.01, "--device", "cpu"]
    script("attention_cost", "--mechanisms", json.dumps(MECHANISMS), *sizes, "--dtype", "float32", "--out", costs)
    assert set(pd.read_csv(costs)["mechanism"]) == {*MECHANISMS, "sdpa-naive"}
    for name in ("attention_time", "attention_memory"):
        figures = [tmp_path / f"{name}.{suffix}" for suffix in ("svg", "png")]
        script("measure_figure", name, "--table", costs, "--out", *figures)
        assert all(figure.stat().st_size > 5_000 for figure in figures)
        assert "favor-m16" in figures[0].read_text()
    kept = tmp_path / "attention_cost_kept.csv"
    script("attention_cost", "--mechanisms", json.dumps(MECHANISMS), *sizes, "--dtype", "float32", "--keep-memory",
           "--out", kept)  # fmt: skip
    script("measure_summary", "attention_cost", "--table", costs, kept, "--out", summary)
    without, padded, leads = markdown_tables(summary.read_text())
    assert (len(without), len(padded)) == (5, 4)
    medians = [
        pd.read_csv(path).query("padding == 'none' and length == 32 and mechanism == 'sdpa'") for path in (costs, kept)
    ]
    first, second = (table.set_index("implementation")["median_ms"] for table in medians)
    torch_row = next(row for row in leads if row["mechanism"] == "sdpa" and row["tokens"] == "32")
    assert torch_row["freed memory returned"] == f"{first['torch'] / first['ours']:.2f}x"
    assert torch_row["freed memory kept"] == f"{second['torch'] / second['ours']:.2f}x"
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- attention_cost: written by make bench-page -->\n<!-- end of attention_cost -->\n")
    script("tools/cost_page", "--page", page, "--summaries", summary)
    assert summary.read_text().strip() in page.read_text()


def test_training_is_measured_and_summed_up(script, tmp_path):
    out, summary = tmp_path / "training_cost.csv", tmp_path / "training_cost.md"
    encoder = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    sizes = ["--batch", 1, "--documents", 4, "--document-batch", 2, "--repetitions", 1, "--device", "cpu"]
    script("training_cost", "--mechanisms", json.dumps(MECHANISMS), "--encoder", json.dumps(encoder), *sizes,
           "--dtype", "float32", "--out", out)  # fmt: skip
    assert set(pd.read_csv(out)["step"]) == {"mlm", "finetune_epoch", "finetune_epoch_padded"}
    script("measure_summary", "training_cost", "--table", out, "--out", summary)
    (table,) = markdown_tables(summary.read_text())
    assert len(table) == 1 + len(MECHANISMS) + 3


def test_whole_encoders_are_measured_and_summed_up(script, tmp_path):
    out, summary = tmp_path / "encoder_cost.csv", tmp_path / "encoder_cost.md"
    sizes = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    script("encoder_cost", "--encoder", json.dumps(sizes), "--lengths", 32, 64, "--seconds", 0.01, "--device", "cpu",
           "--dtype", "float32", "--out", out)  # fmt: skip
    script("measure_summary", "encoder_cost", "--table", out, "--out", summary)
    forward, step = markdown_tables(summary.read_text())
    assert {row["model"] for row in forward} - {row["model"] for row in step} == {"mamba"}
    assert all("x)" in row["64 [ms]"] for row in (*forward, *step))


@pytest.mark.parametrize("name", ["attention_cost", "training_cost"])
def test_a_gpu_asks_for_torch_transformers_pydantic_and_pandas_alone(repository, name):
    command = [sys.executable, "tests/helpers/bare_python.py", "torch,transformers,pydantic,pandas"]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    done = subprocess.run(
        [*command, f"scripts/{name}.py", "--help"], cwd=repository, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--mechanisms JSON" in done.stdout


def test_training_really_runs_where_nothing_else_is_installed(repository, tmp_path):
    """On a CPU, memory asks for one more package."""
    out = tmp_path / "training_cost.csv"
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    command = [sys.executable, "tests/helpers/bare_python.py", "torch,transformers,pydantic,pandas,psutil"]
    command += ["scripts/training_cost.py", "--encoder", json.dumps(sizes), "--batch", "1", "--documents", "2"]
    command += ["--document-batch", "2", "--repetitions", "1", "--device", "cpu", "--dtype", "float32", "--out", out]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    done = subprocess.run(list(map(str, command)), cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out)
    grid = yaml.safe_load((repository / "config/config.yaml").read_text())["experiment"]["mechanisms"]
    assert table[table["step"] == "mlm"]["model"].tolist() == ["bert", *grid]
    assert (table[table["step"] == "mlm"]["gemm_share"] > 0).all()


def test_adaptation_is_measured_and_summed_up(script, tmp_path):
    out, summary = tmp_path / "adaptation_cost.csv", tmp_path / "adaptation_cost.md"
    model = {"model_type": "llama", "vocab_size": 200, "hidden_size": 32, "intermediate_size": 64}
    models = {"tiny": model | {"num_hidden_layers": 1, "num_attention_heads": 2}}
    sizes = ["--batch", 2, "--length", 32, "--repetitions", 1, "--device", "cpu", "--dtype", "float32"]
    script("adaptation_cost", "--models", json.dumps(models), *sizes, "--out", out)
    assert pd.read_csv(out)["implementation"].tolist() == ["transformers + peft", "ours"]
    script("measure_summary", "adaptation_cost", "--table", out, "--out", summary)
    (table,) = markdown_tables(summary.read_text())
    assert [row["model"] for row in table] == ["tiny", "tiny"]


def test_one_sequence_is_measured_drawn_and_summed_up(script, tmp_path):
    encoder = json.dumps({"hidden_size": 32, "num_attention_heads": 2})
    own = {"sequence_cost": ["--encoder", encoder, "--seconds", 0.01], "memory_cost": ["--heads", 2, "--head-size", 16]}
    shown = {"sequence_cost": "sequence_time", "memory_cost": "memory_length"}
    for name, figure in shown.items():
        table, summary = tmp_path / f"{name}.csv", tmp_path / f"{name}.md"
        sizes = ["--lengths", 32, 512, "--gibibytes", 0.001, "--device", "cpu", "--dtype", "float32"]
        script(name, "--mechanisms", json.dumps(MECHANISMS), *own[name], *sizes, "--out", table)
        skipped = pd.read_csv(table).set_index("length")["skipped"].dropna()
        assert set(skipped) == {"more than 0.001 GiB"}  # 3 x 2 x 512^2 x 4 bytes are 6 MiB
        assert 512 in skipped.index
        assert 32 not in skipped.index
        script("measure_summary", name, "--table", table, "--out", summary)
        assert len(markdown_tables(summary.read_text())) == 2
        assert "not measured: more than 0.001 GiB" in summary.read_text()
        figures = [tmp_path / f"{figure}.{suffix}" for suffix in ("svg", "png")]
        script("measure_figure", figure, "--table", table, "--out", *figures)
        assert "favor-m16" in figures[0].read_text()


def test_the_bench_is_planned_beside_the_grid(copy_of_repository):
    planned = copy_of_repository("bench").snakemake("-n", "bench").stdout
    figures = [f"figure_{name}" for name in ("attention_time", "attention_memory", "favor_error", "lsh_recall")]
    tables = ("attention_cost", "training_cost", "encoder_cost", "favor_error", "lsh_recall")
    for rule in (*tables, "measure_summary", *figures):
        assert f"\n{rule} " in planned
    assert "pretrain" not in planned
    assert "\nsequence_cost " not in planned


def test_the_bench_of_adaptation_is_planned_beside_it(copy_of_repository):
    planned = copy_of_repository("bench_adaptation").snakemake("-n", "bench_adaptation").stdout
    for rule in ("adaptation_cost", "measure_summary"):
        assert f"\n{rule} " in planned
    assert "\ntraining_cost " not in planned


def test_the_bench_of_one_sequence_is_planned_beside_it(copy_of_repository):
    copy = copy_of_repository("bench_length")
    planned = copy.snakemake("-n", "bench_length").stdout
    for rule in ("sequence_cost", "memory_cost", "measure_summary", "figure_sequence_time", "figure_memory_length"):
        assert f"\n{rule} " in planned
    assert "\nattention_cost " not in planned
    assert "favor-m128" in copy.snakemake("-n", "-p", "memory_cost").stdout
