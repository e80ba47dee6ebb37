"""Stages that tune: what stands for their trials, and what is refused."""

import pytest
from pydantic import ValidationError
from small_studies import DELETE, RECIPE, SMALL, changed, study

from lib.core.errors import ConfigError
from lib.core.files import read_mapping
from lib.core.search_space import Dimension
from lib.study.configuration import load_study
from lib.study.tuning import Tuning

SPACE = {
    "recipe.learning_rate": {"low": 1e-5, "high": 1e-3, "log": True},
    "recipe.freeze_layers": {"values": [0, 1, 2]},
    "task.classifier_dropout": {"low": 0.0, "high": 0.3, "step": 0.1},
}
TUNE = {
    "start": "tapt",
    "models": ["sdpa"],
    "tuning": {"trials": 8, "space": SPACE},
    "task": {"kind": "sequence_classification"},
    "recipe": RECIPE,
    "data": {"imdb": {}, "arxiv": {"recipe": {"epochs": 5}}},
}
TUNING = ("stages/tune", TUNE)
TAKING = ("stages/finetune/settings_from", "tune")


@pytest.mark.parametrize(
    ("dimension", "examples"),
    [
        ({"values": ["cls", None, 2]}, ["cls", None, 2]),
        ({"low": 1, "high": 4}, [1, 2, 4]),
        ({"low": 1, "high": 8, "log": True}, [1, 2, 8]),
        ({"low": 2, "high": 9, "step": 3}, [2, 5, 8]),
        ({"low": 0.0, "high": 0.3, "step": 0.15}, [0, 0.15, 0.3]),
        ({"low": 0, "high": 1, "step": 1}, [0, 1]),
        ({"low": 0.5, "high": 1}, [0.5, 0.809017, 1]),
    ],
)
def test_a_few_values_stand_for_all(dimension, examples):
    found = Dimension.model_validate(dimension).examples()
    assert found == examples or found == pytest.approx(examples)


@pytest.mark.parametrize(
    ("dimension", "is_whole"),
    [
        ({"low": 1, "high": 4}, True),
        ({"low": 1, "high": 4, "step": 2}, True),
        ({"low": 1, "high": 4.0}, False),
        ({"low": 1, "high": 4, "step": 0.5}, False),
    ],
)
def test_bounds_without_a_point_make_whole_numbers(dimension, is_whole):
    assert Dimension.model_validate(dimension).whole is is_whole


def test_every_two_settings_are_tried_in_all_pairs_of_their_examples():
    space = {"recipe.epochs": [1, 2], "recipe.batch_size": [8, 16], "task.classifier_pooling": ["cls", "mean"]}
    tuning = Tuning.model_validate({"trials": 4, "space": {name: {"values": each} for name, each in space.items()}})
    found = tuning.examples()
    for one in space:
        for other in set(space) - {one}:
            pairs = {(settings[one], settings[other]) for settings in found}
            assert pairs == {(value, beside) for value in space[one] for beside in space[other]}
    assert all(list(settings) == list(space) for settings in found)


def test_a_single_setting_is_tried_alone():
    tuning = Tuning.model_validate({"trials": 4, "space": {"recipe.epochs": {"values": [1, 2]}}})
    assert tuning.examples() == [{"recipe.epochs": 1}, {"recipe.epochs": 2}]


@pytest.mark.parametrize(("trials", "startup", "waits"), [(8, None, 2), (40, None, 10), (20, None, 5), (8, 4, 4)])
def test_sampler_and_pruner_wait_for_some_trials(trials, startup, waits):
    space = {"recipe.epochs": {"values": [1, 2]}}
    assert Tuning(trials=trials, startup=startup, space=space).startup_trials == waits


def test_a_number_that_yaml_takes_for_a_text_is_a_number():
    dimension = Dimension.model_validate(read_mapping("{low: 1e-5, high: 1e-3}"))
    assert (dimension.low, dimension.high) == (1e-5, 1e-3)


def test_a_stage_that_tunes_has_one_seed():
    graph = study(TUNING, ("seeds", [3, 1, 2])).graph
    assert graph.seeds_of("tune", "imdb") == [3]
    assert graph.seeds_of("finetune", "imdb") == [3, 1, 2]
    assert study(TUNING, ("stages/tune/seeds", [7])).graph.seeds_of("tune", "imdb") == [7]


def test_the_table_of_what_was_taken_may_count_it(tmp_path):
    report = {"tables": {"hours": {"kind": "compute", "time": ["tune", "finetune"]}}}
    assert study(TUNING, TAKING, layers=[("report.yaml", {"report": report})]).report.tables["hours"].time[0] == "tune"


@pytest.mark.parametrize(
    ("dimension", "message"),
    [
        ({}, "expected values, or both low and high"),
        ({"low": 1}, "expected values, or both low and high"),
        ({"values": [1], "low": 0}, "values are combined with low, high, step or log"),
        ({"values": [1], "log": True}, "values are combined with low, high, step or log"),
        ({"values": []}, r"values\s+List should have at least 1"),
        ({"values": [2, 2]}, r"values = \[2, 2\] has a value twice"),
        ({"low": "few", "high": 2}, r"low\s+Value error, expected a finite number"),
        ({"low": True, "high": 2}, r"low\s+Value error, expected a finite number"),
        ({"low": 1, "high": float("inf")}, r"high\s+Value error, expected a finite number"),
        ({"low": 1e-3, "high": 1e-5}, "low = 0.001 is not below high = 1e-05"),
        ({"low": 1, "high": 1}, "low = 1 is not below high = 1"),
        ({"low": 0, "high": 1.0, "log": True}, "low = 0 has no logarithm"),
        ({"low": 1, "high": 9, "log": True, "step": 2}, "step = 2 is combined with log"),
        ({"low": 1, "high": 3, "step": 5}, "step = 5 does not fit between low = 1 and high = 3"),
        ({"low": 1, "high": 3, "step": 0}, "step = 0 does not fit"),
        ({"low": 1, "high": 3, "steps": 1}, "steps"),
    ],
)
def test_a_dimension_that_cannot_be_is_refused(dimension, message):
    with pytest.raises(ValidationError, match=message):
        Dimension.model_validate(dimension)


def space(**dimensions):
    return ("stages/tune/tuning/space", {place.replace("__", "."): each for place, each in dimensions.items()})


BAD = {
    "an unknown setting": (
        [space(recipe__learning_rat={"values": [1]})],
        "tuning.space.recipe.learning_rat: unknown key",
    ),
    "a setting of no section": ([space(learning_rate={"values": [1]})], "tuning.space.learning_rate.*pattern"),
    "a value that is wrong": (
        [space(task__classifier_dropout={"low": 0.5, "high": 1.5})],
        r"tuning.space.task.classifier_dropout: .*less than 1.*\(in classifier_dropout-1.1180339",
    ),
    "fractions of what is counted": (
        [space(recipe__epochs={"low": 1.0, "high": 4.0})],
        "tuning.space.recipe.epochs: .*whole number",
    ),
    "values that do not fit beside each other": (
        [
            ("stages/tune/recipe/lora", {}),
            space(recipe__freeze_layers={"values": [0, 1]}, recipe__epochs={"values": [1]}),
        ],
        r"tuning.space.recipe: freeze_layers and freeze_embeddings do nothing.*\(in epochs-1\+freeze_layers-1\)",
    ),
    "two kinds of task": (
        [space(task__kind={"values": ["masked_lm"]})],
        "tuning.space.task.kind: a stage has one kind of task",
    ),
    "nothing to search": ([space()], "tuning.space: .*at least 1"),
    "more frozen than there is": (
        [space(recipe__freeze_layers={"low": 0, "high": 3})],
        "stages.tune.data.imdb.recipe.freeze_layers: 3 is too many, since there are 2 blocks",
    ),
    "no trials": ([("stages/tune/tuning/trials", 0)], "tuning.trials: .*greater than 0"),
    "variants beside it": (
        [("stages/tune/variants", {"recipe.epochs": [1, 2]})],
        "stages.tune: variants and tuning are both set. Leave one of them out",
    ),
    "no recipe": (
        [("stages/tune/recipe", DELETE), ("stages/tune/start", "finetune"), ("stages/tune/data", {"imdb": {}})],
        "stages.tune.tuning: trials train by a recipe, but data.imdb has none",
    ),
    "what does not train": (
        [("stages/tune/models", DELETE)],
        "stages.tune.models: does not train on imdb, so there is nothing to tune.*tfidf",
    ),
    "a start from trials": (
        [("stages/finetune/start", "tune"), ("stages/finetune/settings_from", DELETE)],
        "stages.finetune.start: tune has tuning, whose trials keep no model.*settings_from: tune takes the best",
    ),
    "settings for what tunes itself": (
        [("stages/other", TUNE | {"settings_from": "tune"})],
        "stages.other.settings_from: other has tuning itself",
    ),
    "settings of several models": (
        [("stages/tune/models", ["sdpa", "favor-m64"])],
        "finetune.settings_from: tune is neither passed by the model itself nor by one model alone .lsh-h2-c64",
    ),
    "settings for another task": (
        [("stages/tapt/settings_from", "tune"), ("stages/tune/start", "pretrain")],
        "tapt.settings_from: the best of tune may not fit here: task.classifier_dropout: unknown key",
    ),
    "settings from a search without the dataset": (
        [("stages/tune/data", {"imdb": {}})],
        "stages.finetune.settings_from: tune does not search on arxiv with sdpa",
    ),
    "a table that shows no trials": (
        [("/report/tables/x", {"stage": "tune", "columns": ["f1"]})],
        "report.tables.x.stage: tune has tuning, which the kind stage would mix",
    ),
    "a table of variants": (
        [("/report/tables/x", {"kind": "search", "stage": "tune"})],
        "report.tables.x.stage: tune has tuning, which the kind search would mix",
    ),
    "a figure of the history": (
        [("/report/figures/x", {"kind": "loss", "stage": "tune"})],
        "report.figures.x.stage: tune has tuning, which the kind loss would mix",
    ),
    "trials that are not there": (
        [("/report/figures/x", {"kind": "trials", "stage": "finetune"})],
        "report.figures.x.stage: finetune has no tuning. Name a stage that has",
    ),
    "trials that others made": (
        [("/report/tables/x", {"kind": "trials", "stage": "tune"}), ("/execution/runs", "imported")],
        "report.tables.x: needs trials, which imported runs do not leave",
    ),
    "a look into trials": (
        [("/report/analyses/x", {"kind": "heads", "stage": "tune", "dataset": "imdb"})],
        "report.analyses.x.stage: tune has tuning, whose trials keep no model",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_refused(changes, message):
    below = [(place[1:] if place.startswith("/") else f"experiment/{place}", value) for place, value in changes]
    values = changed(SMALL, *((f"experiment/{place}", value) for place, value in (TUNING, TAKING)))
    with pytest.raises(ConfigError, match=message):
        load_study([("small.yaml", changed(values, *below))])


def test_settings_may_be_taken_by_the_score_of_any_task():
    search = {
        "start": "pretrain",
        "models": ["sdpa"],
        "tuning": {"trials": 2, "space": {"task.mask_probability": {"low": 0.1, "high": 0.4}}},
        "task": {"kind": "masked_lm"},
        "recipe": RECIPE,
        "data": {"imdb": {}, "arxiv": {}},
    }
    taking = ("stages/tapt/settings_from", "tune")
    assert study(("stages/tune", search), taking).experiment.stages["tapt"].settings_from == "tune"


def test_a_problem_of_all_examples_is_told_once():
    values = changed(
        SMALL, ("experiment/stages/tune", TUNE), ("experiment/" + space()[0], {"recipe.epoch": {"values": [1, 2]}})
    )
    with pytest.raises(ConfigError) as error:
        load_study([("small.yaml", values)])
    assert str(error.value).count("\n- ") == 1


def test_other_stages_than_a_search_may_have_several_processes():
    assert study(TUNING, layers=[("gpus.yaml", {"execution": {"gpus_per_run": 2}})]).runs
