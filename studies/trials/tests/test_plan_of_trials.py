"""Tuning in the plan: one run per model and dataset, what it leaves, and who takes its settings from where."""

import json

import pytest
from small_studies import RECIPE, study

from lib.core.record import RunId
from lib.workflow.planning.plan import Plan

pytestmark = pytest.mark.extended

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


def test_runs_of_a_search(plan):
    assert [run.id for run in plan.runs if run.id.stage == "tune"] == [KEY, KEY._replace(dataset="arxiv")]
    assert [run.id for run in plan.runs if run.tuning] == [KEY, KEY._replace(dataset="arxiv")]
    assert plan.program(plan.run(KEY)) == "tune"


def test_settings_of_a_search(plan):
    settings = json.loads(plan.run(KEY).settings)
    assert settings["tuning"]["trials"] == 8
    assert settings["tuning"]["space"]["recipe.learning_rate"]["log"] is True
    assert settings["recipe"]["learning_rate"] == RECIPE["learning_rate"]
    assert "tuning" not in json.loads(plan.run(RunId("finetune", "sdpa", "imdb", 1)).settings)


def test_settings_taken_from_a_search(plan):
    assert plan.settings_from(plan.run(RunId("finetune", "favor-m64", "arxiv", 2))) == [
        "results/search/tune/sdpa/arxiv.json"
    ]
    assert plan.searches("tuning") == [("tune", KEY.model, "imdb"), ("tune", KEY.model, "arxiv")]
    assert plan.searches("variants") == []
    assert plan.tuned("tune", KEY.model, "imdb") == KEY


def test_time_of_a_search(plan):
    finetune = plan.minutes(plan.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert plan.minutes(plan.run(KEY)) == 8 * finetune
    more = planned(("stages/tune/tuning/trials", 16))
    assert more.minutes(more.run(KEY)) == 16 * finetune
    longer = planned(("stages/tune/tuning/space/recipe.epochs", {"low": 100, "high": 200}))
    epochs = planned(("stages/finetune/recipe/epochs", 200))
    of_200 = epochs.minutes(epochs.run(RunId("finetune", "sdpa", "imdb", 1)))
    assert of_200 > finetune
    assert longer.minutes(longer.run(KEY)) == 8 * of_200
