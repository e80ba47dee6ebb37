"""Searches in the plan: a run per combination, what each starts from, and who takes the best settings from where."""

import itertools
import json

import pytest
from small_studies import RECIPE, study

from lib.core.record import RunId
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


def test_one_run_per_combination_dataset_and_seed(plan):
    runs = [run.id for run in plan.runs if run.id.stage == "search"]
    assert {run.model for run in runs} == {"sdpa"}
    assert [(run.dataset, run.variant, run.seed) for run in runs] == [
        *(("imdb", name, seed) for name in NAMES for seed in (2, 7)),
        *(("arxiv", name, 2) for name in NAMES),
    ]
    assert {run.id.variant for run in plan.runs if run.id.stage != "search"} == {""}


def test_variant_has_own_folder_and_settings(plan):
    key = RunId("search", "sdpa", "imdb", 7, NAMES[1])
    assert plan.paths.folder(key) == f"results/runs/search/sdpa/imdb/{NAMES[1]}/seed-7"
    settings = json.loads(plan.run(key).settings)
    assert settings["variant"] == {"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"}
    assert (settings["recipe"]["freeze_layers"], settings["task"]["classifier_pooling"]) == (2, "cls")
    assert settings["recipe"]["epochs"] == RECIPE["epochs"]
    assert "variant" not in json.loads(plan.run(RunId("finetune", "sdpa", "imdb", 1)).settings)


def test_start_of_own_or_first_seed(plan):
    for seed, before in ((2, 2), (7, 1)):
        found = plan.run(RunId("search", "sdpa", "imdb", seed, NAMES[0])).parent
        assert found == RunId("tapt", "sdpa", "imdb", before)


def test_best_settings_of_the_dataset(plan):
    assert plan.settings_from(plan.run(RunId("finetune", "favor-m64", "arxiv", 1))) == [
        "results/search/search/sdpa/arxiv.json"
    ]
    assert plan.settings_from(plan.run(RunId("finetune", "tfidf", "arxiv", 1))) == []
    assert plan.settings_from(plan.run(RunId("search", "sdpa", "arxiv", 2, NAMES[0]))) == []
    assert plan.searches("variants") == [("search", "sdpa", "imdb"), ("search", "sdpa", "arxiv")]


def test_best_settings_of_the_model():
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


TUNING = {"trials": 2, "space": {"recipe.learning_rate": {"low": 1.0e-4, "high": 1.0e-2}}}
OWN_SEARCHES = [
    {"recipe": RECIPE | {"epochs": 4}},
    {"mechanism": "favor-m64"},
    {"data": {"arxiv": {"mechanism": "favor-m64"}}},
]


def test_models_whose_searches_differ_share_no_runs():
    same, models = {"backbone": "encoder", "mechanism": "sdpa"}, ["sdpa", "same", "own"]
    later = {key: SEARCH[key] for key in ("task", "recipe")} | {"start": "finetune", "data": {"arxiv": {}}}
    for section, own in itertools.product(({"variants": SEARCH["variants"]}, {"tuning": TUNING}), OWN_SEARCHES):
        search = {key: value for key, value in SEARCH.items() if key in ("start", "task", "recipe")} | section
        graph = study(
            ("stages/search", search | {"models": models, "data": {"imdb": {}, "arxiv": {}}}),
            ("stages/finetune/settings_from", "search"),
            ("stages/later", later),
            ("models", {"sdpa": same, "same": same, "own": same | {"changes": {"search": own}}}),
        ).graph
        for stage in ("finetune", "later"):
            assert [graph.owner(model, stage, "arxiv") for model in models] == ["sdpa", "sdpa", "own"]
        assert graph.owner("own", "finetune", "imdb") == ("sdpa" if "data" in own else "own")


def test_search_reads_all_runs_on_the_dataset(plan):
    scope = plan.report.search_scope("search", "sdpa", "imdb")
    files = plan.report.inputs(scope)
    assert files == [f"results/runs/search/sdpa/imdb/{name}/seed-{seed}/run.json" for name in NAMES for seed in (2, 7)]
    assert scope["variants"]["search"][1] == [["task.classifier_pooling", "cls"], ["recipe.freeze_layers", 2]]
