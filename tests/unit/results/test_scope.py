import json

import pytest
from run_records import scope_of, write_baseline, write_run

from lib.core.errors import DataError
from lib.results.scope import scope

STAGES = {"tapt": ["imdb", "arxiv"], "finetune": ["imdb", "arxiv"]}


@pytest.fixture
def folders(tmp_path):
    """Two models that adapt and fine-tune, and a baseline that only fine-tunes, on two datasets with two seeds."""
    made = []
    for dataset, seconds in (("imdb", 60.0), ("arxiv", 600.0)):
        for seed in (1, 2):
            made += [write_run(tmp_path, "tapt", model, dataset, seed, seconds=seconds) for model in ("sdpa", "gru")]
            made += [write_run(tmp_path, "finetune", "sdpa", dataset, seed, seconds=seconds * seed)]
            made += [write_run(tmp_path, "finetune", "gru", dataset, seed, seconds=7.0)]
            made += [write_baseline(tmp_path, dataset, 0.5, seed=seed)]
    return made


@pytest.fixture
def shown(folders):
    """The scope of all runs; the baseline does not pass the first stage."""
    owners = {"tapt": {"gru": "gru", "sdpa": "sdpa"}, "finetune": {"gru": "gru", "sdpa": "sdpa", "tfidf": "tfidf"}}
    return scope_of(folders, STAGES, ["gru", "sdpa"], owners=owners, baseline="tfidf")


def test_grid_of_rows_datasets_and_seeds(shown):
    grid = shown.grid("finetune", ["test_f1_macro"])
    keys = sorted(grid[["row", "dataset", "seed"]].itertuples(index=False, name=None))
    assert keys == [(row, name, seed) for row in ("gru", "sdpa") for name in ("arxiv", "imdb") for seed in (1, 2)]
    assert grid["row"].tolist() == grid["model"].tolist()
    with pytest.raises(DataError, match="finetune/gru/arxiv/seed-1.*test_loss"):
        shown.grid("finetune", ["test_loss"])


def test_totals_over_stages(shown):
    totals = shown.totals("training_seconds", ["tapt", "finetune"], ["sdpa", "gru"], "sum", "finetune")
    assert totals.index.names == ["dataset", "row", "seed"]
    assert totals.to_dict() == {
        ("imdb", "sdpa", 1): 120, ("imdb", "sdpa", 2): 180, ("arxiv", "sdpa", 1): 1200, ("arxiv", "sdpa", 2): 1800,
        ("imdb", "gru", 1): 67, ("imdb", "gru", 2): 67, ("arxiv", "gru", 1): 607, ("arxiv", "gru", 2): 607,
    }  # fmt: skip
    alone = shown.totals("training_seconds", ["finetune"], ["sdpa"], "sum", "finetune")
    assert alone.to_dict() == {
        ("imdb", "sdpa", 1): 60, ("imdb", "sdpa", 2): 120, ("arxiv", "sdpa", 1): 600, ("arxiv", "sdpa", 2): 1200,
    }  # fmt: skip


def test_order_after_json(folders):
    """Settings of rules are JSON with sorted keys."""
    fields = {
        "models": ["sdpa", "gru"],
        "stages": [["tapt", ["imdb"]], ["finetune", ["imdb"]]],
        "owners": {stage: {"sdpa": {"imdb": "sdpa"}, "gru": {"imdb": "gru"}} for stage in ("tapt", "finetune")},
        "families": {"sdpa": "sdpa", "gru": "recurrent"},
        "reference": "sdpa",
    }
    shown = scope(json.loads(json.dumps(fields, sort_keys=True)), [folder / "run.json" for folder in folders])
    assert list(shown.stages.items()) == [("tapt", ["imdb"]), ("finetune", ["imdb"])]
    assert list(shown.families.items()) == [("sdpa", "sdpa"), ("gru", "recurrent")]
    assert (shown.reference, shown.baseline, shown.published) == ("sdpa", None, None)
    assert len(shown.runs) == len(folders)
