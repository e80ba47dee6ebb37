"""State sizes reach the tables and figures that show them, and no others."""

from small_studies import study

from lib.workflow.planning.plan import Plan

MODELS = ["sdpa", "lsh-h2-c64", "favor-m64"]


def scope(*changes, **shown):
    """Return what a table of the fine-tuning is told."""
    tables = {"x": {"stage": "finetune", "models": MODELS, **shown}}
    made = study(*changes, layers=[("report.yaml", {"report": {"tables": tables}})])
    return Plan(made).report.tables["x"]["scope"]


def test_a_table_of_state_sizes_is_told_the_bytes_of_every_row_on_every_dataset():
    found = scope(columns=["f1", "state_size"])["state_bytes"]["finetune"]
    layers, heads, width, tokens = 2, 2, 32, 128
    expected = {
        "sdpa": 4 * layers * heads * 2 * tokens * width,
        "lsh-h2-c64": 4 * layers * heads * 2 * tokens * width,  # 384 tokens of windows, of which there are 128
        "favor-m64": 4 * layers * heads * 64 * (width + 1),
    }
    assert found == {"imdb": expected, "arxiv": expected}


def test_other_tables_are_not():
    assert "state_bytes" not in scope(columns=["f1"])


def test_a_model_is_counted_at_the_length_that_it_reads():
    found = scope(("datasets/imdb/max_tokens", 64), columns=["state_size"], models=["sdpa"])["state_bytes"]["finetune"]
    assert {dataset: rows["sdpa"] for dataset, rows in found.items()} == {
        "imdb": 4 * 2 * 2 * 2 * 64 * 32,
        "arxiv": 4 * 2 * 2 * 2 * 128 * 32,
    }


def test_stages_are_counted_apart():
    shown = {"stage": ["tapt", "finetune"], "columns": {"tapt": ["loss"], "finetune": ["f1", "state_size"]}}
    change = ("models/sdpa/changes", {"finetune": {"mechanism": "favor-m64"}})
    found = scope(change, models=["sdpa"], **shown)["state_bytes"]
    assert found["tapt"]["imdb"]["sdpa"] == 4 * 2 * 2 * 2 * 128 * 32
    assert found["finetune"]["imdb"]["sdpa"] == 4 * 2 * 2 * 64 * 33
