"""Tuning in the plan: one run per model and dataset, what it leaves, and who takes its settings from where."""

import json

import pytest
from small_studies import RECIPE, study

from lib.core.record import RunId
from lib.workflow.planning.plan import Plan

TUNING = {"trials": 8, "space": {"recipe.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True}}}
TUNE = {
    "start": "tapt",
    "models": ["sdpa"],
    "tuning": TUNING,
    "task": {"kind": "sequence_classification"},
    "recipe": RECIPE,
    "data": {"imdb": {}, "arxiv": {}},
}
REPORT = {
    "tables": {"trials": {"kind": "trials", "stage": "tune"}},
    "figures": {"trials": {"kind": "trials", "stage": "tune"}},
}
KEY = RunId("tune", "sdpa", "imdb", 1)


def planned(*changes):
    taking = ("stages/finetune/settings_from", "tune")
    return Plan(study(("stages/tune", TUNE), taking, *changes, layers=[("report.yaml", {"report": REPORT})]))


@pytest.fixture
def plan():
    return planned()


def test_there_is_one_run_per_dataset_with_the_first_seed(plan):
    assert [run.id for run in plan.runs if run.id.stage == "tune"] == [KEY, KEY._replace(dataset="arxiv")]
    assert [run.id for run in plan.runs if run.tuning] == [KEY, KEY._replace(dataset="arxiv")]
    assert plan.program(plan.run(KEY)) == "tune"


def test_its_settings_hold_what_is_searched_and_no_other_run_does(plan):
    settings = json.loads(plan.run(KEY).settings)
    assert settings["tuning"]["trials"] == 8
    assert settings["tuning"]["space"]["recipe.learning_rate"]["log"] is True
    assert settings["recipe"]["learning_rate"] == RECIPE["learning_rate"]
    assert "tuning" not in json.loads(plan.run(RunId("finetune", "sdpa", "imdb", 1)).settings)


def test_what_it_leaves(plan):
    files = [plan.paths.config(KEY), plan.paths.record(KEY)]
    assert files == [f"results/runs/tune/sdpa/imdb/seed-1/{name}" for name in ("config.yaml", "run.json")]
    assert plan.start(plan.run(KEY)) == ["results/runs/tapt/sdpa/imdb/seed-1/model"]


def test_what_trains_takes_the_settings_of_its_dataset(plan):
    assert plan.settings_from(plan.run(RunId("finetune", "favor-m64", "arxiv", 2))) == [
        "results/search/tune/sdpa/arxiv.json"
    ]
    assert plan.searches("tuning") == [("tune", KEY.model, "imdb"), ("tune", KEY.model, "arxiv")]
    assert plan.searches("variants") == []
    assert plan.tuned("tune", KEY.model, "imdb") == KEY


def test_it_asks_for_the_time_of_its_longest_trial_times_all(plan):
    finetune = plan.minutes(plan.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert plan.minutes(plan.run(KEY)) == 8 * finetune
    more = planned(("stages/tune/tuning/trials", 16))
    assert more.minutes(more.run(KEY)) == 16 * finetune
    longer = planned(("stages/tune/tuning/space/recipe.epochs", {"low": 100, "high": 200}))
    epochs = planned(("stages/finetune/recipe/epochs", 200))
    of_200 = epochs.minutes(epochs.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert of_200 > finetune
    assert longer.minutes(longer.run(KEY)) == 8 * of_200


def test_another_space_is_another_run_and_changes_no_other(plan):
    other = planned(("stages/tune/tuning/space/recipe.learning_rate/high", 1e-2))
    differ = {run.id for run in plan.runs if run.settings != other.run(run.id).settings}
    assert differ == {KEY, KEY._replace(dataset="arxiv")}


def test_its_code_is_that_of_its_trainings_and_of_the_search(plan):
    assert plan.code(plan.run(KEY)) != plan.code(plan.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert plan.code(plan.run(KEY)) == plan.code(plan.run(KEY._replace(dataset="arxiv")))


def test_table_and_figures_read_its_records(plan):
    files = [f"results/runs/tune/sdpa/{dataset}/seed-1/run.json" for dataset in ("imdb", "arxiv")]
    assert plan.report.inputs(plan.report.tables["trials"]["scope"]) == files
    assert {name: plan.report.inputs(figure["scope"]) for name, figure in plan.report.figures.items()} == {
        "trials_imdb": files[:1], "trials_arxiv": files[1:],
    }  # fmt: skip
