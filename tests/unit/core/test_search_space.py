"""Stages that search, and stages that take the best settings: what they stand for, and what is refused."""

import json

import pytest
from small_studies import DELETE, RECIPE, SMALL, changed, study

from lib.core.errors import ConfigError
from lib.core.search_space import laid_over, variant_name
from lib.study.arguments import read_run
from lib.study.configuration import load_study

SEARCH = {
    "start": "tapt",
    "models": ["sdpa"],
    "variants": {"recipe.freeze_layers": [0, 2], "task.classifier_pooling": ["cls", "mean"]},
    "task": {"kind": "sequence_classification"},
    "recipe": RECIPE,
    "data": {"imdb": {}, "arxiv": {"recipe": {"epochs": 5}}},
}
SEARCHING = ("stages/search", SEARCH)
TAKING = ("stages/finetune/settings_from", "search")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, ""),
        ({"task.classifier_pooling": "cls", "recipe.freeze_layers": 2}, "freeze_layers-2+classifier_pooling-cls"),
        (
            {"recipe.learning_rate": 3e-05, "recipe.freeze_embeddings": True},
            "freeze_embeddings-true+learning_rate-3e-05",
        ),
        ({"recipe.freeze_epochs": None}, "freeze_epochs-null"),
    ],
)
def test_variant_is_called_by_its_settings(settings, name):
    assert variant_name(settings) == name
    assert variant_name(dict(reversed(settings.items()))) == name


def test_settings_laid_over_values_leave_these():
    values = {"seed": 1, "recipe": {"epochs": 2, "freeze_layers": 0}, "task": None}
    laid = laid_over(values, {"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"})
    assert laid == {"seed": 1, "recipe": {"epochs": 2, "freeze_layers": 2}, "task": {"classifier_pooling": "cls"}}
    assert values["recipe"]["freeze_layers"] == 0


def test_combinations_vary_the_last_setting_first():
    stage = study(SEARCHING).experiment.stages["search"]
    assert [tuple(settings.values()) for settings in stage.combinations()] == [
        (0, "cls"), (0, "mean"), (2, "cls"), (2, "mean"),
    ]  # fmt: skip
    assert study().experiment.stages["finetune"].combinations() == [{}]


def test_settings_of_a_variant_lie_over_those_of_the_entry():
    work = study(SEARCHING).experiment.stages["search"].data["arxiv"]
    varied = work.with_settings({"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"})
    assert (varied.recipe.freeze_layers, varied.task.classifier_pooling) == (2, "cls")
    assert (varied.recipe.epochs, varied.recipe.batch_size) == (5, RECIPE["batch_size"])
    assert (work.recipe.freeze_layers, work.task.classifier_pooling) == (0, "mean")


def test_stage_is_passed_by_the_models_that_it_names():
    graph = study(SEARCHING).graph
    assert [model for model in graph.experiment.models if graph.has_runs(model, "search")] == ["sdpa"]
    assert graph.stages_of("favor-m64") == ["pretrain", "tapt", "finetune"]

    graph = study(("stages/tapt/models", ["sdpa"])).graph
    assert graph.parent_stage("sdpa", "finetune") == "tapt"
    assert graph.parent_stage("favor-m64", "finetune") == "pretrain"


def test_seeds_of_the_entry_go_before_those_of_the_stage():
    seeds = [("stages/search/seeds", [7]), ("stages/search/data/imdb/seeds", [8, 9])]
    graph = study(SEARCHING, *seeds).graph
    assert graph.seeds_of("search", "imdb") == [8, 9]
    assert graph.seeds_of("search", "arxiv") == [7]
    assert graph.seeds_of("finetune", "arxiv") == [1, 2]


def varied(**variants):
    return ("stages/search/variants", {place.replace("__", "."): values for place, values in variants.items()})


BAD = [
    ([varied(recipe__freeze_layers=[0, "two"])], r"variants.recipe.freeze_layers: .*\(in freeze_layers-two\)"),
    ([varied(recipe__epochs=[2, 2])], r"variants.recipe.epochs: \[2, 2\]"),
    ([("stages/finetune/start", "search"), ("stages/finetune/settings_from", DELETE)], "finetune.start: search has"),
    ([("stages/search/data", {"imdb": {}})], "finetune.settings_from: search does not search on arxiv"),
    ([("stages/search/models", ["sdpa", "favor-m64"])], "finetune.settings_from: search is neither"),
    ([("stages/finetune/variants", {"recipe.epochs": [1, 2]})], "finetune.settings_from: finetune has variants"),
    (
        [("stages/search/task", {"kind": "masked_lm"}), varied(recipe__epochs=[1, 2])],
        "finetune.settings_from: .*highest F1, which masked_lm",
    ),
    ([("/report/tables/x", {"stage": "search", "columns": ["f1"]})], "report.tables.x.stage: search has variants"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message for _, message in BAD])
def test_variants_that_cannot_be_are_refused(changes, message):
    below = [(place[1:] if place.startswith("/") else f"experiment/{place}", value) for place, value in changes]
    values = changed(SMALL, *((f"experiment/{place}", value) for place, value in (SEARCHING, TAKING)))
    with pytest.raises(ConfigError, match=message):
        load_study([("small.yaml", changed(values, *below))])


def test_program_lays_the_best_settings_over_its_own(tmp_path):
    (tmp_path / "best.json").write_text('{"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"}')
    settings = {
        "stage": "finetune",
        "model": "sdpa",
        "dataset": "imdb",
        "seed": 1,
        "task": {"kind": "sequence_classification", "classifier_dropout": 0.3},
        "labels": ["no", "yes"],
        "backbone": {"kind": "encoder", "mechanism": {"kind": "sdpa"}},
        "tokenizer": "tokenizer",
        "data": {"train": "a", "validation": "b", "test": "c"},
        "recipe": RECIPE,
    }
    arguments = ["--config", json.dumps(settings), "--out", "out"]
    run, *_ = read_run(None, [*arguments, "--settings-from", str(tmp_path / "best.json")])
    assert (run.recipe.freeze_layers, run.recipe.epochs) == (2, RECIPE["epochs"])
    assert (run.task.classifier_pooling, run.task.classifier_dropout) == ("cls", 0.3)
    assert run.variant == {}
    assert read_run(None, arguments)[0].recipe.freeze_layers == 0
