"""State sizes reach the tables and figures that show them, and no others."""

import pytest
from small_studies import study

from lib.workflow.planning.plan import Plan

pytestmark = pytest.mark.extended

MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


def scope(*changes, **shown):
    """Return what a table of the fine-tuning is told."""
    tables = {"x": {"stage": "finetune", "models": MODELS, **shown}}
    made = study(*changes, layers=[("report.yaml", {"report": {"tables": tables}})])
    return Plan(made).report.tables["x"]["scope"]


def test_bytes_of_rows_and_datasets():
    found = scope(columns=["f1", "state_size"])["state_bytes"]["finetune"]
    layers, heads, width, tokens = 2, 2, 32, 128
    expected = {
        "sdpa": 4 * layers * heads * 2 * tokens * width,
        "lsh-h2-c64": 4 * layers * heads * 2 * tokens * width,  # 384 tokens of windows, of which there are 128
        "favor-m64": 4 * layers * heads * 64 * (width + 1),
    }
    assert found == {"imdb": expected, "arxiv": expected}


def test_length_that_a_model_reads():
    found = scope(("datasets/imdb/max_tokens", 64), columns=["state_size"], models=["sdpa"])["state_bytes"]["finetune"]
    assert {dataset: rows["sdpa"] for dataset, rows in found.items()} == {
        "imdb": 4 * 2 * 2 * 2 * 64 * 32,
        "arxiv": 4 * 2 * 2 * 2 * 128 * 32,
    }
