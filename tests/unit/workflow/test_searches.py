"""Searches in the plan: a run per combination, what each starts from, and who takes the best settings from where."""

import json

import pytest
from small_studies import RECIPE, study

from lib.core.errors import ConfigError
from lib.core.record import RunId
from lib.study.configuration import load_study, read_layers
from lib.workflow.planning.plan import Plan

SEARCH = {
    "start": "tapt",
    "models": ["sdpa"],
    "variants": {"task.classifier_pooling": ["cls", "mean"], "recipe.freeze_layers": [0, 2]},
    "task": {"kind": "sequence_classification"},
    "recipe": RECIPE,
    "seeds": [2],
    "data": {"imdb": {"seeds": [2, 7]}, "arxiv": {}},
}
REPORT = {"tables": {"search": {"kind": "search", "stage": "search"}}}
NAMES = [f"freeze_layers-{layers}+classifier_pooling-{pooling}" for pooling in ("cls", "mean") for layers in (0, 2)]


@pytest.fixture
def plan():
    taking = ("stages/finetune/settings_from", "search")
    return Plan(study(("stages/search", SEARCH), taking, layers=[("report.yaml", {"report": REPORT})]))


def test_there_is_a_run_per_combination_dataset_and_seed(plan):
    runs = [run.id for run in plan.runs if run.id.stage == "search"]
    assert {run.model for run in runs} == {"sdpa"}
    assert [(run.dataset, run.variant, run.seed) for run in runs] == [
        *(("imdb", name, seed) for name in NAMES for seed in (2, 7)),
        *(("arxiv", name, 2) for name in NAMES),
    ]
    assert {run.id.variant for run in plan.runs if run.id.stage != "search"} == {""}


def test_a_variant_has_a_folder_and_settings_of_its_own(plan):
    key = RunId("search", "sdpa", "imdb", 7, NAMES[1])
    assert plan.paths.folder(key) == f"results/runs/search/sdpa/imdb/{NAMES[1]}/seed-7"
    settings = json.loads(plan.run(key).settings)
    assert settings["variant"] == {"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"}
    assert (settings["recipe"]["freeze_layers"], settings["task"]["classifier_pooling"]) == (2, "cls")
    assert settings["recipe"]["epochs"] == RECIPE["epochs"]
    assert "variant" not in json.loads(plan.run(RunId("finetune", "sdpa", "imdb", 1)).settings)


def test_a_run_starts_from_its_own_seed_or_from_the_first(plan):
    for seed, before in ((2, 2), (7, 1)):
        found = plan.run(RunId("search", "sdpa", "imdb", seed, NAMES[0])).parent
        assert found == RunId("tapt", "sdpa", "imdb", before)


def test_what_trains_takes_the_best_settings_of_its_dataset(plan):
    assert plan.settings_from(plan.run(RunId("finetune", "favor-m64", "arxiv", 1))) == [
        "results/search/search/sdpa/arxiv.json"
    ]
    assert plan.settings_from(plan.run(RunId("finetune", "tfidf", "arxiv", 1))) == []
    assert plan.settings_from(plan.run(RunId("search", "sdpa", "arxiv", 2, NAMES[0]))) == []
    assert plan.searches("variants") == [("search", "sdpa", "imdb"), ("search", "sdpa", "arxiv")]


def test_models_that_search_take_their_own_best_settings():
    taking = ("stages/finetune/settings_from", "search")
    plan = Plan(study(("stages/search", SEARCH), ("stages/search/models", ["sdpa", "favor-m64", "lsh-h2-c64"]), taking))
    for model in ("sdpa", "favor-m64", "lsh-h2-c64"):
        best = f"results/search/search/{model}/arxiv.json"
        assert plan.settings_from(plan.run(RunId("finetune", model, "arxiv", 1))) == [best]
        scope = plan.report.search_scope("search", model, "arxiv")
        assert plan.report.inputs(scope) == [
            f"results/runs/search/{model}/arxiv/{name}/seed-2/run.json" for name in NAMES
        ]
    assert plan.settings_from(plan.run(RunId("finetune", "tfidf", "arxiv", 1))) == []


def test_a_model_that_would_take_no_settings_of_several_searches_is_named():
    taking = ("stages/finetune/settings_from", "search")
    with pytest.raises(
        ConfigError, match=r"search is neither passed by the model itself nor by one model alone \(lsh-h2-c64\)"
    ):
        study(("stages/search", SEARCH), ("stages/search/models", ["sdpa", "favor-m64"]), taking)


TUNING = {"trials": 2, "space": {"recipe.learning_rate": {"low": 1.0e-4, "high": 1.0e-2}}}
OWN_SEARCHES = {
    "deviation": {"changes": {"search": {"recipe": RECIPE | {"epochs": 4}}}},
    "mechanism": {"changes": {"search": {"mechanism": "favor-m64"}}},
    "mechanism on one dataset": {"changes": {"search": {"data": {"arxiv": {"mechanism": "favor-m64"}}}}},
}


@pytest.mark.parametrize("own", OWN_SEARCHES.values(), ids=OWN_SEARCHES)
@pytest.mark.parametrize("section", ["variants", "tuning"])
def test_models_whose_searches_differ_share_no_runs_that_take_their_settings(own, section):
    search = {key: value for key, value in SEARCH.items() if key in ("start", "task", "recipe")}
    search |= {"variants": SEARCH["variants"]} if section == "variants" else {"tuning": TUNING}
    same, models = {"backbone": "encoder", "mechanism": "sdpa"}, ["sdpa", "same", "own"]
    graph = study(
        ("stages/search", search | {"models": models, "data": {"imdb": {}, "arxiv": {}}}),
        ("stages/finetune/settings_from", "search"),
        (
            "stages/later",
            {key: SEARCH[key] for key in ("task", "recipe")} | {"start": "finetune", "data": {"arxiv": {}}},
        ),
        ("models", {"sdpa": same, "same": same, "own": same | own}),
    ).graph
    for stage in ("finetune", "later"):
        assert [graph.owner(model, stage, "arxiv") for model in models] == ["sdpa", "sdpa", "own"]
    differs_there = own is not OWN_SEARCHES["mechanism on one dataset"]
    assert graph.owner("own", "finetune", "imdb") == ("own" if differs_there else "sdpa")


def test_models_without_a_search_of_their_own_share_the_runs_that_take_the_settings_of_the_only_one():
    same = {"backbone": "encoder", "mechanism": "sdpa"}
    graph = study(("stages/search", SEARCH), ("stages/finetune/settings_from", "search"), ("models/same", same)).graph
    assert graph.owner("same", "finetune", "imdb") == "sdpa"


def test_the_best_settings_are_chosen_from_all_runs_on_the_dataset(plan):
    scope = plan.report.search_scope("search", "sdpa", "imdb")
    files = plan.report.inputs(scope)
    assert files == [f"results/runs/search/sdpa/imdb/{name}/seed-{seed}/run.json" for name in NAMES for seed in (2, 7)]
    assert scope["variants"]["search"][1] == [["task.classifier_pooling", "cls"], ["recipe.freeze_layers", 2]]


def test_a_table_of_a_search_reads_all_of_it(plan):
    table = plan.report.tables["search"]
    assert table["scope"]["models"] == ["sdpa"]
    assert len(plan.report.inputs(table["scope"])) == 4 * (2 + 1)
    assert table["scope"]["variants"] == plan.report.search_scope("search", "sdpa", "imdb")["variants"]


def test_the_search_of_the_grid_is_that_of_the_study(repository):
    grid = Plan(load_study(read_layers([repository / "config/config.yaml"])))
    plan = Plan(load_study(read_layers([repository / "config/full.yaml"])))
    runs = [run.id for run in plan.runs if run.id.stage == "search"]
    assert {dataset: len([run for run in runs if run.dataset == dataset]) for dataset in grid.experiment.datasets} == {
        "imdb": 12 * 3, "hyperpartisan": 12, "arxiv": 12,
    }  # fmt: skip
    assert {tuple(plan.start(plan.run(run))) for run in runs if run.dataset == "imdb"} == {
        ("results/runs/tapt/sdpa/imdb/seed-420/model",)
    }
    shared = [run for run in plan.runs if run.id.stage != "search" and run.id.model in grid.experiment.models]
    assert [(run.id, run.settings) for run in shared] == [(run.id, run.settings) for run in grid.runs]
