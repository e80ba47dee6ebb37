"""The tables of the published records, made by our code, against the printed ones: equal to the last digit."""

from pathlib import Path

import pytest

from lib.results.foreign import load_foreign
from lib.results.published import published
from lib.results.scope import Scope
from lib.results.tables.stage import Parameters, make

REFERENCE = Path(__file__).resolve().parents[2] / "../shared/reference"
MODELS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MODELS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]
DATASETS = ["imdb", "hyperpartisan", "arxiv"]

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def runs():
    if not REFERENCE.is_dir():
        pytest.skip(f"no published records at {REFERENCE}")
    return load_foreign(REFERENCE)[0]


@pytest.fixture(scope="module")
def grid(runs):
    """The published runs; of the search on IMDb, those that it chose."""
    search = (runs["stage"] == "finetune") & (runs["dataset"] == "imdb")
    chosen = (runs["freeze_n_layers"] == 2) & (runs["classifier_dropout"] == 0.2) & (runs["pooling"] == "mean")
    return runs[~search | chosen.fillna(False)]


def table(runs, stage, datasets, columns, models):
    """Return the table of a stage from runs that come from elsewhere than records of ours."""
    scope = Scope(models=models, stages={stage: datasets}, owners={stage: {model: model for model in models}})
    scope.__dict__["runs"] = runs  # in place of what it would read from files
    return make(Parameters(stage=stage, columns=columns), scope)


@pytest.mark.parametrize(
    ("stage", "datasets", "column", "score"),
    [
        ("pretrain", ["wikipedia"], "loss", "loss"),
        ("tapt", DATASETS, "loss", "loss"),
        ("finetune", DATASETS, "f1", "f1_macro_percent"),
    ],
)
def test_stage_tables_are_the_printed_ones(grid, stage, datasets, column, score):
    runs, columns = grid[grid["seed"] == 420], ["memory", "minutes", column]
    frame = table(runs, stage, datasets, columns, MODELS).frame.set_index("model")
    printed = published()
    printed = printed[(printed["stage"] == stage) & printed["model"].isin(MODELS)]
    assert len(printed) == len(MODELS) * len(datasets)
    for row in printed.itertuples():
        for name, decimals in {
            "peak_memory_gib": 2,
            "minutes_per_epoch": 2,
            score: 3 if score == "loss" else 2,
        }.items():
            ours = frame.loc[row.model, f"{row.dataset}_{name}"]
            assert f"{ours:.{decimals}f}" == f"{getattr(row, name):.{decimals}f}", (row.model, row.dataset, name)


def test_three_seeds_give_a_mean_and_a_deviation(grid):
    frame = table(grid, "finetune", ["imdb"], ["f1"], ["sdpa"]).frame
    scores = 100 * grid.query("stage == 'finetune' and dataset == 'imdb' and model == 'sdpa'")["test_f1_macro"]
    assert len(scores) == 3
    assert frame["imdb"].tolist() == pytest.approx([scores.mean()])
    assert frame["imdb_sd"].tolist() == pytest.approx([scores.std()])


def test_the_masked_variant_is_a_row_of_its_own(runs):
    assert (runs["model"] == "lsh-h2-c64-masked").sum() == 1
