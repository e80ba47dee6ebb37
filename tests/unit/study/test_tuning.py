"""Stages that tune: what stands for their trials, and what is refused."""

import pytest
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
        ({"low": 0.5, "high": 1}, [0.5, 0.809017, 1]),
    ],
)
def test_examples_of_a_dimension_stand_for_all(dimension, examples):
    found = Dimension.model_validate(dimension).examples()
    assert found == examples or found == pytest.approx(examples)


def test_examples_of_two_settings_are_tried_in_all_pairs():
    space = {"recipe.epochs": [1, 2], "recipe.batch_size": [8, 16], "task.classifier_pooling": ["cls", "mean"]}
    tuning = Tuning.model_validate({"trials": 4, "space": {name: {"values": each} for name, each in space.items()}})
    found = tuning.examples()
    for one in space:
        for other in set(space) - {one}:
            pairs = {(settings[one], settings[other]) for settings in found}
            assert pairs == {(value, beside) for value in space[one] for beside in space[other]}
    assert all(list(settings) == list(space) for settings in found)
    alone = Tuning.model_validate({"trials": 4, "space": {"recipe.epochs": {"values": [1, 2]}}})
    assert alone.examples() == [{"recipe.epochs": 1}, {"recipe.epochs": 2}]
    dimension = Dimension.model_validate(read_mapping("{low: 1e-5, high: 1e-3}"))
    assert (dimension.low, dimension.high, dimension.whole) == (1e-5, 1e-3, False)
    assert Dimension(low=1, high=4).whole
    assert not Dimension(low=1, high=4.0).whole


def test_stage_that_tunes_has_one_seed():
    graph = study(TUNING, ("seeds", [3, 1, 2])).graph
    assert graph.seeds_of("tune", "imdb") == [3]
    assert graph.seeds_of("finetune", "imdb") == [3, 1, 2]
    assert study(TUNING, ("stages/tune/seeds", [7])).graph.seeds_of("tune", "imdb") == [7]


def space(**dimensions):
    return ("stages/tune/tuning/space", {place.replace("__", "."): each for place, each in dimensions.items()})


BAD = [
    (
        [space(task__classifier_dropout={"low": 0.5, "high": 1.5})],
        r"tuning.space.task.classifier_dropout: .*less than 1.*\(in classifier_dropout-1.1180339",
    ),
    (
        [("stages/tune/recipe/lora", {}), space(recipe__freeze_layers={"values": [0, 1]})],
        r"tuning.space.recipe: freeze_layers.*\(in freeze_layers-1\)",
    ),
    ([("stages/tune/variants", {"recipe.epochs": [1, 2]})], "stages.tune: variants and tuning"),
    ([("stages/finetune/start", "tune"), ("stages/finetune/settings_from", DELETE)], "stages.finetune.start: tune has"),
    ([("stages/tune/models", ["sdpa", "favor-m64"])], "finetune.settings_from: tune is neither"),
    ([("/report/tables/x", {"stage": "tune", "columns": ["f1"]})], "report.tables.x.stage: tune has tuning"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message for _, message in BAD])
def test_search_that_cannot_be_is_refused(changes, message):
    below = [(place[1:] if place.startswith("/") else f"experiment/{place}", value) for place, value in changes]
    values = changed(SMALL, *((f"experiment/{place}", value) for place, value in (TUNING, TAKING)))
    with pytest.raises(ConfigError, match=message):
        load_study([("small.yaml", changed(values, *below))])
