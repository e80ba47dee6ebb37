"""Stages that search, and stages that take the best settings: what they stand for, and what is refused."""

import json

import pytest
from small_studies import DELETE, RECIPE, SMALL, changed, study

from lib.core.errors import ConfigError
from lib.core.files import read_mapping
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
def test_a_variant_is_called_by_its_settings(settings, name):
    assert variant_name(settings) == name
    assert variant_name(dict(reversed(settings.items()))) == name


def test_settings_are_laid_over_values_which_stay_as_they_are():
    values = {"seed": 1, "recipe": {"epochs": 2, "freeze_layers": 0}, "task": None}
    laid = laid_over(values, {"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"})
    assert laid == {"seed": 1, "recipe": {"epochs": 2, "freeze_layers": 2}, "task": {"classifier_pooling": "cls"}}
    assert values["recipe"]["freeze_layers"] == 0


def test_every_combination_is_a_variant_and_the_last_setting_runs_fastest():
    stage = study(SEARCHING).experiment.stages["search"]
    assert [tuple(settings.values()) for settings in stage.combinations()] == [
        (0, "cls"), (0, "mean"), (2, "cls"), (2, "mean"),
    ]  # fmt: skip
    assert study().experiment.stages["finetune"].combinations() == [{}]


def test_settings_lie_over_those_of_the_stage_and_of_the_entry():
    work = study(SEARCHING).experiment.stages["search"].data["arxiv"]
    varied = work.with_settings({"recipe.freeze_layers": 2, "task.classifier_pooling": "cls"})
    assert (varied.recipe.freeze_layers, varied.task.classifier_pooling) == (2, "cls")
    assert (varied.recipe.epochs, varied.recipe.batch_size) == (5, RECIPE["batch_size"])
    assert (work.recipe.freeze_layers, work.task.classifier_pooling) == (0, "mean")


def test_a_number_that_yaml_takes_for_a_text_is_a_number():
    read = read_mapping("{recipe.learning_rate: [1e-4, 3.0e-4, 1.5e0], task.classifier_pooling: [cls]}")
    stage = study(SEARCHING, ("stages/search/variants", read)).experiment.stages["search"]
    assert stage.variants == {"recipe.learning_rate": [0.0001, 0.0003, 1.5], "task.classifier_pooling": ["cls"]}


def test_a_stage_is_passed_by_the_models_that_it_names():
    graph = study(SEARCHING).graph
    assert [model for model in graph.experiment.models if graph.has_runs(model, "search")] == ["sdpa"]
    assert graph.stages_of("favor-m64") == ["pretrain", "tapt", "finetune"]


def test_a_model_that_a_stage_does_not_name_starts_from_the_one_before():
    graph = study(("stages/tapt/models", ["sdpa"])).graph
    assert graph.parent_stage("sdpa", "finetune") == "tapt"
    assert graph.parent_stage("favor-m64", "finetune") == "pretrain"


def test_seeds_are_those_of_the_entry_else_of_the_stage_else_of_the_study():
    seeds = [("stages/search/seeds", [7]), ("stages/search/data/imdb/seeds", [8, 9])]
    graph = study(SEARCHING, *seeds).graph
    assert graph.seeds_of("search", "imdb") == [8, 9]
    assert graph.seeds_of("search", "arxiv") == [7]
    assert graph.seeds_of("finetune", "arxiv") == [1, 2]


def varied(**variants):
    return ("stages/search/variants", {place.replace("__", "."): values for place, values in variants.items()})


BAD = {
    "an unknown setting": ([varied(recipe__freeze_layer=[1])], "variants.recipe.freeze_layer: unknown key"),
    "a setting of nothing": ([varied(freeze_layers=[1])], "variants.freeze_layers.*should match pattern"),
    "a value of a wrong type": (
        [varied(recipe__freeze_layers=[0, "two"])],
        r"search.variants.recipe.freeze_layers: .*whole number.*Found 'two' \(in freeze_layers-two\)",
    ),
    "a value out of range": (
        [varied(task__classifier_dropout=[0.1, 1.5])],
        "variants.task.classifier_dropout: .*less than 1.*Found 1.5",
    ),
    "no value": ([varied(recipe__epochs=[])], "variants.recipe.epochs: .*at least 1"),
    "a value twice": ([varied(recipe__epochs=[2, 2])], r"variants.recipe.epochs: \[2, 2\] names a value twice"),
    "two kinds of task": ([varied(task__kind=["masked_lm"])], "variants.task.kind: a stage has one kind of task"),
    "more frozen than there is": (
        [varied(recipe__freeze_layers=[0, 3])],
        "stages.search.data.imdb.recipe.freeze_layers: 3 is too many, since there are 2 blocks",
    ),
    "a recipe that is not there": (
        [("stages/search/recipe", DELETE), ("stages/search/start", "finetune"), ("stages/search/data", {"imdb": {}})],
        "variants: settings of a recipe, but data.imdb has none",
    ),
    "an unknown model of a stage": (
        [("stages/search/models", ["bert"])],
        "stages.search.models: there is no 'bert'. Known: tfidf, sdpa",
    ),
    "no model of a stage": ([("stages/search/models", [])], "stages.search.models: .*at least 1"),
    "a start from many models": (
        [("stages/finetune/start", "search"), ("stages/finetune/settings_from", DELETE)],
        "stages.finetune.start: search has variants, and so a model of each.*settings_from: search takes the best",
    ),
    "settings from nowhere": (
        [("stages/finetune/settings_from", "serach")],
        "stages.finetune.settings_from: there is no 'serach'. Did you mean 'search'. Known: pretrain, tapt",
    ),
    "settings from what searches nothing": (
        [("stages/finetune/settings_from", "tapt")],
        "stages.finetune.settings_from: tapt has neither variants nor tuning",
    ),
    "settings from a search without the dataset": (
        [("stages/search/data", {"imdb": {}})],
        "stages.finetune.settings_from: search does not search on arxiv with sdpa. Add it there",
    ),
    "settings of several models": (
        [("stages/search/models", ["sdpa", "favor-m64"])],
        "finetune.settings_from: search is neither passed by the model itself nor by one model alone .lsh-h2-c64",
    ),
    "settings for variants": (
        [("stages/finetune/variants", {"recipe.epochs": [1, 2]})],
        "stages.finetune.settings_from: finetune has variants itself",
    ),
    "settings from what needs them": (
        [("stages/search/start", "finetune")],
        "stages: .*finetune.* needs .*search.*, a circle",
    ),
    "settings for another task": (
        [("stages/tapt/settings_from", "search"), ("stages/search/start", "pretrain")],
        "tapt.settings_from: the best of search may not fit here: task.classifier_pooling: unknown key",
    ),
    "settings chosen without a score": (
        [
            ("stages/search/task", {"kind": "masked_lm"}),
            varied(recipe__epochs=[1, 2]),
        ],
        "finetune.settings_from: the best has the highest macro-F1, which masked_lm, the task of search, lacks",
    ),
    "a table that does not tell variants apart": (
        [("/report/tables/x", {"stage": "search", "columns": ["f1"]})],
        "report.tables.x.stage: search has variants, which the kind stage would mix",
    ),
    "a figure whose time has variants": (
        [("/report/figures/x", {"kind": "score_time", "stage": "finetune", "time": ["search"]})],
        "report.figures.x.stage: search has variants, which the kind score_time would mix",
    ),
    "a look into many models": (
        [("/report/analyses/x", {"kind": "heads", "stage": "search", "dataset": "imdb"})],
        "report.analyses.x.stage: search has variants, and so a model of each",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_refused(changes, message):
    below = [(place[1:] if place.startswith("/") else f"experiment/{place}", value) for place, value in changes]
    values = changed(SMALL, *((f"experiment/{place}", value) for place, value in (SEARCHING, TAKING)))
    with pytest.raises(ConfigError, match=message):
        load_study([("small.yaml", changed(values, *below))])


def test_a_problem_of_all_combinations_is_told_once():
    values = changed(
        SMALL, *((f"experiment/{place}", value) for place, value in (SEARCHING, varied(recipe__epoch=[1])))
    )
    with pytest.raises(ConfigError) as error:
        load_study([("small.yaml", values)])
    assert str(error.value).count("\n- ") == 1


def test_a_program_lays_the_best_settings_over_those_of_the_run(tmp_path):
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


@pytest.mark.parametrize("name", ["no dots.json", "config.yaml"])
def test_a_file_that_holds_no_best_settings_is_named(name, tmp_path):
    (tmp_path / name).write_text('{"stage": "finetune", "recipe": {"epochs": 2}}')
    with pytest.raises(ConfigError, match=f"{name}: stage is no dotted name. Give best.json"):
        read_run(None, ["--config", "{stage: finetune}", "--settings-from", str(tmp_path / name), "--out", "out"])


@pytest.mark.parametrize(("option", "section"), [("--teacher", "task"), ("--word-vectors", "backbone")])
@pytest.mark.parametrize("value", [None, "text"])
def test_a_folder_for_a_section_that_is_none_leaves_its_error(option, section, value):
    settings = {} if value is None else {section: value}
    with pytest.raises(ConfigError, match=rf"\n- {section}: "):
        read_run(None, ["--config", json.dumps(settings), option, "folder", "--out", "out"])
