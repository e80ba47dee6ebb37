"""The published records as a study of ours: its tables hold the printed numbers, to the last digit."""

import json
from pathlib import Path

import pytest

from lib.results.printed_values import published
from lib.results.records import load_runs
from lib.results.scope import scope
from lib.results.settings import FIGURES, TABLES
from lib.results.style import save_figure
from lib.study.configuration import load_study, read_layers
from lib.study.runs import as_json
from lib.workflow.planning.plan import Plan
from studies.imported.importing import import_runs

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "../shared/reference"
DATASETS = ["imdb", "hyperpartisan", "arxiv"]
OTHERWISE = {
    # Epochs times rounded minutes, and two that are no such product; the F1 of table 4.10 is 88.38.
    ("4.15", "sdpa", "wikipedia", "minutes"),
    ("4.15", "sdpa", "arxiv", "minutes"),
    ("4.15", "sdpa", "arxiv", "f1_macro_percent"),
    ("4.15", "favor-m128", "wikipedia", "minutes"),
    ("4.15", "favor-m128", "arxiv", "minutes"),
}
"""Printed numbers that the records do not give (docs/fidelity.md), by table, model, dataset and quantity."""
AT_HAND = {
    "experiment": {"models": {"sdpa-then-favor-m128": None}},
    "report": {
        "tables": {"hybrid": None, **{name: {"datasets": ["imdb"]} for name in ("search", "search_best")}},
        "figures": {"search": {"datasets": ["imdb"]}},
    },
}
"""Of the 123 records, the 99 beside the repository lack the hybrid, and the search on two datasets."""

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The folder of the results, with the records, and the places of these."""
    if not REFERENCE.is_dir():
        pytest.skip(f"no published records at {REFERENCE}")
    results = tmp_path_factory.mktemp("reference")
    files = REFERENCE / "runs.parquet", REFERENCE / "history.parquet"
    folders = import_runs(*files, results, "NVIDIA A100 (40 GB)")
    return results, [str(folder.relative_to(results / "runs")) for folder in folders]


@pytest.fixture(scope="module")
def made(imported):
    """Every table of the study by name, its figures being made as well."""
    layers = read_layers([ROOT / "studies/imported/imported.yaml"])
    plan = Plan(load_study([*layers, ("test", AT_HAND | {"execution": {"results": str(imported[0])}})]))
    plan.check()
    tables = {}
    for name, shown in plan.report.tables.items():
        settings = TABLES.parse(shown["settings"])
        given = scope(json.loads(as_json(shown["scope"])), plan.report.inputs(shown["scope"]))
        tables[name] = settings.make(given)
        tables[name].write([plan.paths.table(name, suffix) for suffix in ("csv", "md", "tex")])
    for name, shown in plan.report.figures.items():
        settings = FIGURES.parse(shown["settings"])
        given = scope(json.loads(as_json(shown["scope"])), plan.report.inputs(shown["scope"]))
        figure = settings.draw(given)
        save_figure(figure, [plan.paths.figure(name, suffix) for suffix in ("svg", "png", "pdf")])
    return tables


def test_places_of_published_records(imported):
    places = [place.split("/") for place in imported[1]]
    counts = {stage: sum(place[0] == stage for place in places) for stage in ("pretrain", "tapt", "finetune", "search")}
    assert counts == {"pretrain": 10, "tapt": 27, "finetune": 27 + 2, "search": 36}  # two more seeds of one model
    assert len({tuple(place[:4]) for place in places if place[0] == "search"}) == 12


def test_printed_numbers_by_records(made):
    numbers = made["published"].frame
    assert numbers.groupby("table", sort=False).size().to_dict() == {
        "4.5": 27, "4.6": 81, "4.10": 81, "4.15": 8
    }  # fmt: skip
    otherwise = numbers[numbers["agrees"] != "yes"]
    found = set(otherwise[["table", "model", "dataset", "quantity"]].itertuples(index=False, name=None))
    assert found == OTHERWISE
    assert otherwise["difference"].abs().max() < 0.08


def test_printed_numbers_in_tables_of_stages(made):
    for name, scores in (("pretrain", "loss"), ("tapt", "loss"), ("finetune", "f1_macro_percent")):
        frame = made[name].frame.rename(columns=str).query("model != 'lsh-h2-c64-masked'")
        for dataset in ["wikipedia"] if name == "pretrain" else DATASETS:
            for quantity, decimals in (("peak_memory_gib", 2), ("minutes_per_epoch", 2), (scores, 3)):
                decimals = 2 if quantity == "f1_macro_percent" else decimals
                ours, printed = (frame[f"{dataset}_{quantity}{suffix}"] for suffix in ("", "_published"))
                assert [f"{value:.{decimals}f}" for value in ours] == [f"{value:.{decimals}f}" for value in printed]


def test_printed_differences_beside_ours(made):
    """The study computed some from rounded minutes, and one figure is that of the other datasets."""
    apart = {}
    for name in ("memory_delta", "time_delta", "f1_delta"):
        frame = made[name].frame.rename(columns=str).set_index("model")
        for column in [name for name in frame if "_against_" in name and f"{name}_published" in frame]:
            difference = (frame[column] - frame[f"{column}_published"]).abs().dropna()
            apart |= {(name, column, model): each for model, each in difference.items()}
    assert len(apart) == 32 + 32 + 24
    assert max(apart.values()) < 0.08


def searched_on_imdb(results, places, seed="seed-"):
    """Return F1 on validation of a search's runs in per cent, by variant and seed, and what was printed of it."""
    files = [results / "runs" / place / "run.json" for place in places if place.startswith("search") and seed in place]
    runs = load_runs(file.parent for file in files)
    printed = published("grid").query("stage == 'search' and dataset == 'imdb'")
    return 100 * runs.set_index(["variant", "seed"])["eval_f1_macro"], printed.set_index(["table", "quantity", "item"])


def test_printed_stability_of_the_search(imported):
    """Its title says test; its numbers are those of validation."""
    scores, printed = searched_on_imdb(*imported)
    by_variant = scores.groupby("variant")
    for name, ours in (("highest", by_variant.max()), ("lowest", by_variant.min())):
        theirs = printed.loc[("C.1", f"validation_f1_macro_{name}"), "printed"]
        assert {variant: f"{ours[variant]:.2f}" for variant in theirs.index} == theirs.to_dict()


def test_printed_search_of_one_seed(imported):
    """And the best of it, 2 frozen layers and dropout 0.2, is not the best over the three seeds."""
    every, _ = searched_on_imdb(*imported)
    one, printed = searched_on_imdb(*imported, "seed-420")
    name = "freeze_layers-{}+classifier_dropout-{}+classifier_pooling-mean"
    assert every.groupby("variant").mean().idxmax() == name.format(1, 0.1)
    assert one.groupby("variant").mean().idxmax() == name.format(2, 0.2)
    theirs = printed.loc[("4.8", "validation_f1_macro_percent"), "printed"]
    assert {variant: f"{one[variant].item():.2f}" for variant in theirs.index} == theirs.to_dict()
