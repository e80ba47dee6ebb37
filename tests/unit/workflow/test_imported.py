"""A study whose runs are imported: no rule makes them, and their records are checked before anything is read."""

import json
from pathlib import Path

import pytest
import yaml
from studies import study

from lib.core.errors import ConfigError, DataError
from lib.workflow.plan import Plan

REPORT = {"tables": {"loss": {"stage": "pretrain", "columns": ["loss"]}}}


@pytest.fixture
def plan(tmp_path):
    """Return the plan of a study whose runs are imported to a folder of the test."""
    values = {"report": REPORT, "execution": {"runs": "imported", "results": str(tmp_path / "results")}}
    return Plan(study(layers=[("imported.yaml", values)]))


def bring(plan, run, **changes):
    folder = Path(plan.paths.folder(run.id))
    settings = json.loads(run.settings)
    known = {name: settings[name] for name in ("stage", "model", "dataset", "seed")}
    known |= {"backbone": {"mechanism": settings["backbone"]["mechanism"]}, "recipe": {"epochs": 2}} | changes
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("run.json", "{}"), ("config.yaml", yaml.safe_dump(known))):
        (folder / name).write_text(text)


def pretrained(plan):
    return [run for run in plan.runs if run.id.stage == "pretrain"]


def test_only_runs_that_are_shown_have_to_be_there(plan):
    for run in pretrained(plan):
        bring(plan, run)
    plan.check()


def test_missing_runs_are_named(plan):
    for run in pretrained(plan)[2:]:
        bring(plan, run)
    with pytest.raises(DataError) as error:
        plan.check()
    assert str(error.value).count("no record") == 2
    assert "runs/pretrain/sdpa/wikipedia/seed-1: no record" in str(error.value)
    assert "scripts/tools/import_runs.py --out" in str(error.value)


def test_long_lists_are_cut():
    values = {"tables": {"f1": {"stage": ["tapt", "finetune"], "columns": ["f1"]}}}
    layer = {"report": values, "execution": {"runs": "imported", "results": "nowhere"}}
    with pytest.raises(DataError, match=r"no record; and 14 more\. Import"):
        Plan(study(layers=[("imported.yaml", layer)])).check()


def test_runs_with_other_settings_are_refused(plan):
    for run in pretrained(plan):
        bring(plan, run)
    bring(plan, pretrained(plan)[0], recipe={"epochs": 3}, backbone={"mechanism": {"kind": "favor"}})
    with pytest.raises(
        DataError, match=r"config.yaml: backbone.mechanism.kind is favor, in the study sdpa; .*recipe.epochs is 3, .* 2"
    ):
        plan.check()


def test_what_needs_more_than_records_is_refused():
    report = {
        "tables": {"each": {"kind": "classes", "stage": "finetune", "models": ["sdpa"]}},
        "analyses": {"look": {"kind": "heads", "stage": "tapt", "dataset": "imdb"}},
    }
    with pytest.raises(ConfigError) as error:
        study(layers=[("imported.yaml", {"report": report, "execution": {"runs": "imported"}})])
    assert "report.tables.each: needs predictions, which imported runs do not leave" in str(error.value)
    assert "report.analyses.look: needs models, which imported runs do not leave" in str(error.value)
