"""The benchmarks are planned as parts of a study; their own tests run the programs."""

import pytest

pytestmark = pytest.mark.study


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
