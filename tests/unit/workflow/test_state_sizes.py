"""State sizes reach the tables and figures that show them, and no others."""

import json

import pytest
from studies import study

from lib.workflow.plan import Plan

WITHOUT_TFIDF = ["sdpa", "lsh-h2-c64", "favor-m64"]


def plan(**shown):
    tables = {"x": {"stage": "finetune", "models": WITHOUT_TFIDF, **shown}}
    return Plan(study(("report/tables", tables)))


def test_a_table_of_state_sizes_is_told_the_bytes_of_every_row_on_every_dataset():
    scope = plan(columns=["f1", "state_size"]).report.tables["x"]["scope"]
    layers, heads, width, tokens = 2, 2, 32, 128
    expected = {
        "sdpa": 4 * layers * heads * 2 * tokens * width,
        "lsh-h2-c64": 4 * layers * heads * 2 * tokens * width,  # 384 tokens of windows, of which there are 128
        "favor-m64": 4 * layers * heads * 64 * (width + 1),
    }
    assert scope["state_bytes"] == {"imdb": expected, "arxiv": expected}
    json.dumps(scope)


def test_other_tables_are_not():
    assert "state_bytes" not in plan(columns=["f1"]).report.tables["x"]["scope"]


@pytest.mark.parametrize("datasets", [["imdb"], ["arxiv"]])
def test_a_model_is_counted_at_the_length_that_it_reads(datasets):
    changes = ("experiment/datasets/imdb/max_tokens", 64)
    tables = ("report/tables", {"x": {"stage": "finetune", "columns": ["state_size"], "models": ["sdpa"]}})
    scope = Plan(study(changes, tables)).report.tables["x"]["scope"]
    (dataset,) = datasets
    assert scope["state_bytes"][dataset]["sdpa"] == 4 * 2 * 2 * 2 * (64 if dataset == "imdb" else 128) * 32
