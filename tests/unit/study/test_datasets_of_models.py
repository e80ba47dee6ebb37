"""Models that are otherwise on one dataset, and models that are made for some datasets only."""

import json

import pytest
from small_studies import SMALL, study

from lib.core.errors import ConfigError
from lib.core.record import RunId
from lib.workflow.planning.plan import Plan

MIXED = ("models/mixed", {"backbone": "encoder", "mechanism": "sdpa", "changes": {}})
ON_ARXIV = ("models/mixed/changes", {"tapt": {"data": {"arxiv": {"mechanism": "favor-m64"}}}})
LIMITED = ("models/mixed/datasets", ["arxiv"])


def of_tapt(change):
    return ("models/mixed/changes", {"tapt": change})


def kinds(graph, model="mixed"):
    """Return the kind of mechanism of a model at every stage and dataset."""
    at = {(stage, entry): graph.backbone_at(name, stage, entry) for name, stage, entry in graph.places if name == model}
    return {place: backbone.held_mechanisms[0].kind for place, backbone in at.items()}


def runs_of(study, model):
    return ["/".join(run.id[:3]) for run in study.runs if (run.id.model, run.id.seed) == (model, 1)]


# A change on one dataset


def test_change_on_one_dataset_holds_for_what_starts_from_it():
    assert kinds(study(MIXED, ON_ARXIV).graph) == {
        ("pretrain", "wikipedia"): "sdpa",
        ("tapt", "imdb"): "sdpa",
        ("tapt", "arxiv"): "favor",
        ("finetune", "imdb"): "sdpa",
        ("finetune", "arxiv"): "favor",
    }

    # What starts from another entry has what that has.
    crossed = ("stages/finetune/data", {"imdb": {"start": "arxiv"}, "arxiv": {"start": "imdb"}})
    found = kinds(study(MIXED, ON_ARXIV, crossed).graph)
    assert (found["finetune", "imdb"], found["finetune", "arxiv"]) == ("favor", "sdpa")


def test_change_on_one_dataset_goes_before_that_of_its_stage():
    changes = {
        "tapt": {"mechanism": "lsh-h2-c64", "data": {"arxiv": {"mechanism": "favor-m64"}}},
        "finetune": {"data": {"arxiv": {"mechanism": "lsh-h2-c64"}}},
    }
    sharing = SMALL["experiment"]["backbones"]["encoder"] | {"kind": "encoder"}
    with pytest.raises(ConfigError, match="stages.finetune.data.arxiv: from tapt to finetune"):
        study(MIXED, ("models/mixed/changes", changes), ("backbones/encoder", sharing))
    changes = {
        "tapt": {"mechanism": "favor-m64", "data": {"arxiv": {"mechanism": "sdpa"}}},
        "finetune": {"data": {"arxiv": {"mechanism": "favor-m64"}}},
    }
    found = kinds(study(MIXED, ("models/mixed/changes", changes)).graph)
    assert [found["tapt", entry] for entry in ("imdb", "arxiv")] == ["favor", "sdpa"]
    assert [found["finetune", entry] for entry in ("imdb", "arxiv")] == ["favor", "favor"]


def test_runs_are_shared_where_settings_agree():
    made = study(MIXED, ON_ARXIV)
    assert runs_of(made, "mixed") == ["tapt/mixed/arxiv", "finetune/mixed/arxiv"]
    graph = made.graph
    owners = {
        (stage, entry): graph.owner("mixed", stage, entry) for name, stage, entry in graph.places if name == "mixed"
    }
    assert [place for place, owner in owners.items() if owner == "mixed"] == [("tapt", "arxiv"), ("finetune", "arxiv")]
    assert set(owners.values()) == {"sdpa", "mixed"}
    runs = {run.id: run for run in made.runs}
    assert runs[RunId("finetune", "mixed", "arxiv", 1)].parent == RunId("tapt", "mixed", "arxiv", 1)
    assert runs[RunId("tapt", "mixed", "arxiv", 1)].parent == RunId("pretrain", "sdpa", "wikipedia", 1)
    assert runs[RunId("finetune", "sdpa", "imdb", 1)].parent == RunId("tapt", "sdpa", "imdb", 1)


def test_settings_of_runs_differ_only_on_that_dataset():
    before = {
        run.id: run.settings for run in study(("models/mixed", {"backbone": "encoder", "mechanism": "sdpa"})).runs
    }
    made = {run.id: run.settings for run in study(MIXED, ON_ARXIV).runs}
    assert {name: made[name] for name in before} == before
    mechanism = json.loads(made[RunId("finetune", "mixed", "arxiv", 1)])["backbone"]["mechanism"]
    favor = next(settings for name, settings in before.items() if name[:3] == ("finetune", "favor-m64", "arxiv"))
    assert mechanism == json.loads(favor)["backbone"]["mechanism"]
    plan = Plan(study(MIXED, ON_ARXIV))
    codes = {name: plan.code(plan.run(RunId("finetune", name, "arxiv", 1))) for name in ("sdpa", "mixed", "favor-m64")}
    assert codes["mixed"] == codes["favor-m64"] != codes["sdpa"]


def test_dataset_taken_out_takes_its_changes_along():
    gone = ("small.yaml", {"experiment": {"datasets": {"arxiv": None}}})
    made = study(MIXED, ON_ARXIV, layers=[gone])
    assert runs_of(made, "mixed") == []
    assert "mixed" not in study(MIXED, LIMITED, layers=[gone]).experiment.models, "as it was made for no other"


# A model for some datasets


def test_model_of_some_datasets_has_runs_there_alone():
    made = study(MIXED, ON_ARXIV, LIMITED)
    assert made.graph.stages_of("mixed") == ["pretrain", "tapt", "finetune"]
    assert [place[1:] for place in made.graph.places if place[0] == "mixed"] == [
        ("pretrain", "wikipedia"), ("tapt", "arxiv"), ("finetune", "arxiv"),
    ]  # fmt: skip
    whole = study(MIXED, ("models/mixed/changes", {"tapt": {"mechanism": "favor-m64"}}))
    limited = study(MIXED, ("models/mixed/changes", {"tapt": {"mechanism": "favor-m64"}}), LIMITED)
    settings = {run.id: run.settings for run in limited.runs}
    gone = [run.id for run in whole.runs if run.id not in settings]
    assert {name[:3] for name in gone} == {("tapt", "mixed", "imdb"), ("finetune", "mixed", "imdb")}
    assert all(settings[run.id] == run.settings for run in whole.runs if run.id in settings)


REPORT = {
    "tables": {
        "f1": {"stage": "finetune", "columns": ["f1"]},
        "imdb": {"stage": "finetune", "columns": ["f1"], "datasets": ["imdb"]},
        "each": {"kind": "history", "stage": "finetune"},
        "classes": {"kind": "classes", "stage": "finetune", "models": ["mixed"]},
    }
}


def test_tables_have_no_row_without_runs():
    made = Plan(study(MIXED, ON_ARXIV, LIMITED, layers=[("report.yaml", {"report": REPORT})]))
    models = {name: table["scope"]["models"] for name, table in made.report.tables.items()}
    every = ["tfidf", "sdpa", "lsh-h2-c64", "favor-m64"]
    assert models == {
        "f1": [*every, "mixed"],
        "imdb": every,
        "each_imdb": every,
        "each_arxiv": [*every, "mixed"],
        "classes_arxiv": ["mixed"],
    }
    assert made.report.tables["classes_arxiv"]["scope"]["stages"] == [["finetune", ["arxiv"]]]


SEARCHED = [
    ("models/sdpa/datasets", ["arxiv"]),
    ("stages/search", SMALL["experiment"]["stages"]["finetune"] | {"models": ["sdpa"], "seeds": [1]}),
    ("stages/search/variants", {"recipe.learning_rate": [1e-3, 2e-3]}),
    ("stages/finetune/settings_from", "search"),
]
F1 = {"stage": "finetune", "columns": ["f1"]}
TAUGHT = {"finetune": {"task": {"kind": "distillation", "teacher": "mixed"}}}
WRONG = [
    ([of_tapt({"data": {"arxiv": {"mechanism": "lsh-h2-c64"}}})], {}, "stages.tapt.data.arxiv: from pretrain to tapt"),
    ([LIMITED, ("stages/finetune/data/arxiv/start", "imdb")], {}, "models.mixed.datasets: finetune on arxiv"),
    ([LIMITED], {"tables": {"f1": F1 | {"models": ["mixed"], "datasets": ["imdb"]}}}, "report.tables.f1.models: mixed"),
    ([LIMITED, ("models/sdpa/changes", TAUGHT)], {}, "stages.finetune.data.imdb.task.teacher: mixed"),
    (SEARCHED, {}, "stages.finetune.settings_from: search does not search on imdb"),
]


@pytest.mark.parametrize(("changes", "report", "expected"), WRONG, ids=[each[-1] for each in WRONG])
def test_change_or_limit_that_cannot_be_is_named(changes, report, expected):
    with pytest.raises(ConfigError) as error:
        study(MIXED, *changes, layers=[("report.yaml", {"report": report})])
    assert expected in str(error.value)
