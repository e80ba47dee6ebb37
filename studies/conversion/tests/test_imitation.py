"""A stage that imitates: which model teaches, what a run is told of it, and what is refused before the first job."""

import json

import pytest
from small_studies import RECIPE, study

from lib.core.errors import ConfigError
from lib.core.record import RunId
from lib.core.weights import ForeignStart
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.resources import training_minutes

pytestmark = pytest.mark.extended

SWAPPED = {"backbone": "encoder", "mechanism": "sdpa", "changes": {"imitate": {"mechanism": "favor-m64"}}}
STAGE = {
    "start": "pretrain",
    "task": {"kind": "imitation", "teacher": "sdpa"},
    "recipe": RECIPE,
    "data": {"imdb": {}},
    "models": ["swapped"],
}
WIDE = {"kind": "encoder", "hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 2}
SHORT = {"kind": "encoder", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
FOLDER = {"folder": "published/model"}
ON_ITS_OWN = {"backbone": "encoder", "mechanism": "sdpa", "skip": ["pretrain", "tapt", "finetune"]}
BASIS = [
    ("stages/imitate", STAGE),
    ("stages/tapt/start", "imitate"),
    ("stages/tapt/data", {"imdb": {}}),
    ("stages/finetune/data", {"imdb": {}}),
    ("models/swapped", SWAPPED),
]
"""Changes by which a model pretrains with exact attention, imitates that by FAVOR+, and goes on."""
LEARNS = [
    ("mechanisms/hedgehog", {"kind": "hedgehog"}),
    ("models/swapped/changes", {"imitate": {"mechanism": "hedgehog"}}),
    ("stages/imitate/task/match", "outputs"),
]
"""Changes by which it learns the outputs of attention."""


def teacher(name, model, *changes):
    """Return changes by which another model teaches."""
    return [(f"models/{name}", model), ("stages/imitate/task/teacher", name), *changes]


def imitating(*changes):
    made = study(*BASIS, *changes)
    (run, *_) = [run for run in made.runs if run.id.stage == "imitate"]
    return made, run


def test_teacher_of_a_stage():
    made, run = imitating()
    assert run.id == RunId("imitate", "swapped", "imdb", 1)
    assert run.parent == run.imitated.weights == RunId("pretrain", "sdpa", "wikipedia", 1)
    assert (run.backbone.mechanism.kind, run.imitated.backbone.mechanism.kind) == ("favor", "sdpa")
    task = json.loads(run.settings)["task"]
    assert task["teacher_backbone"] == run.imitated.backbone.model_dump(mode="json")
    assert (task["teacher_weights"], task["layers"]) == (None, "last")
    plan = Plan(made)
    assert plan.imitated_weights(run) == plan.start(run) == ["results/runs/pretrain/sdpa/wikipedia/seed-1/model"]
    later = next(run for run in made.runs if run.id[:2] == ("tapt", "swapped"))
    assert later.parent == run.id
    assert plan.imitated_weights(later) == []
    runs = [run for run in made.runs if run.id.stage == "imitate"]
    assert [(run.id.seed, run.imitated.weights.seed) for run in runs] == [(1, 1), (2, 2)]


def test_task_that_matches_attention():
    _, run = imitating(*LEARNS)
    assert run.backbone.mechanism.kind == "hedgehog"
    assert json.loads(run.settings)["task"]["match"] == "outputs"
    _, usual = imitating(("stages/imitate/task/match", "states"))
    assert usual.settings == imitating()[1].settings
    assert "match" not in json.loads(usual.settings)["task"]


def test_published_start_as_teacher():
    """Without an earlier stage; the student has another mechanism from the beginning."""
    made, run = imitating(
        ("stages/imitate/start", None),
        ("models/swapped", ON_ITS_OWN | {"mechanism": "favor-m64", "start": FOLDER}),
        ("stages/tapt/start", "pretrain"),
        *teacher("published", ON_ITS_OWN | {"start": FOLDER, "skip": ["pretrain", "tapt", "finetune"]}),
    )
    assert run.parent is None
    assert run.start == run.imitated.weights == ForeignStart(**FOLDER)
    assert (run.backbone.mechanism.kind, run.imitated.backbone.mechanism.kind) == ("favor", "sdpa")
    assert Plan(made).imitated_weights(run) == ["published/model"]


def test_code_of_the_teacher():
    made, run = imitating()
    other, same = (imitating(("stages/imitate/task/teacher", name))[1] for name in ("lsh-h2-c64", "swapped"))
    plan = Plan(made)
    assert plan.code(other) != plan.code(run) == plan.code(same)


def test_time_of_the_teacher():
    """Which goes forward once, where the student goes forward and back."""
    made, run = imitating(("stages/imitate/recipe/epochs", 10**6))
    settings = {"recipe": run.work.recipe, "predicted_share": 0, "max_tokens": 128, "token_lengths": "none"}
    student, teacher = (training_minutes(backbone=each, **settings) for each in (run.backbone, run.imitated.backbone))
    assert Plan(made).minutes(run) == pytest.approx(student + teacher / 3, rel=0.01)


REFUSED = {
    "unknown": (
        [("stages/imitate/task/teacher", "nobody")],
        "task.teacher: there is no 'nobody'. Known: tfidf",
    ),
    "the same": (
        [("stages/imitate/models", ["swapped", "sdpa"])],
        "task.teacher: sdpa has the same weights and attention, so there is nothing to learn (sdpa)",
    ),
    "random weights": (
        teacher("fresh", {"backbone": "encoder", "mechanism": "sdpa", "skip": ["pretrain"], "start": "scratch"}),
        "fresh has random weights before imitate",
    ),
    "another width": (
        teacher("wide", {"backbone": "wide", "mechanism": "sdpa"}, ("backbones/wide", WIDE)),
        "wide has 128 numbers per state and not 64",
    ),
    "another tokeniser": (
        teacher(
            "reader",
            {"backbone": "encoder", "mechanism": "sdpa", "tokenizer": "fine"},
            ("tokenizers/fine", {"source": "trained", "vocab_size": 900}),
            *((f"models/{name}/tokenizer", "wordpiece") for name in ("sdpa", "lsh-h2-c64", "favor-m64", "swapped")),
        ),
        "reader reads by the tokeniser fine and not by wordpiece. Let both have the same",
    ),
    "attention without weights to learn": (
        [("stages/imitate/task/match", "outputs")],
        "match = outputs needs a mechanism with weights such as hedgehog, but favor-m64 is here",
    ),
    "weights that do not add up to 1": (
        [
            ("mechanisms/linformer-k4", {"kind": "linformer", "rank": 4, "length": 512}),
            ("models/swapped/changes", {"imitate": {"mechanism": "linformer-k4"}}),
            ("stages/imitate/task/match", "weights"),
        ],
        "match = weights needs attention weights that add up to 1, but those of linformer-k4 do not",
    ),
    "a teacher whose attention is not exact": (
        [*LEARNS, ("stages/imitate/task/teacher", "favor-m64")],
        "match = outputs learns exact attention (sdpa), but favor-m64 has favor-m64",
    ),
    "an earlier stage that leaves no model": (
        [
            ("models/sdpa/changes", {"pretrain": {"recipe": {"lora": {"merge": False}}}}),
            ("models/sdpa/start", FOLDER),
        ],
        "sdpa comes from pretrain, which leaves adapters without the full weights",
    ),
    "a search among teachers": (
        [
            ("stages/imitate/tuning", {"trials": 2, "space": {"task.teacher": {"values": ["sdpa", "swapped"]}}}),
            ("stages/tapt/start", "pretrain"),
        ],
        "task.teacher: is searched, but all trials, and all that take the best, need one teacher",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_teachers_that_do_not_fit(case):
    changes, message = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        study(*BASIS, *changes)
    assert message in str(error.value)
