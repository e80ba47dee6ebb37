"""Models of one study read the same documents up to lengths of their own, or keep their heads and tails."""

import json

import pytest
from small_studies import DATASET, DELETE, RECIPE, study

from lib.core.errors import ConfigError
from lib.workflow.planning.plan import Plan

ROW = {"backbone": "encoder", "mechanism": "sdpa"}


def runs_of(found, stage, model):
    return [run for run in found.runs if (run.id.stage, run.id.model) == (stage, model)]


# Lengths


def with_lengths(*changes):
    return study(
        ("models/short", ROW | {"max_tokens": 64}),
        ("models/same", ROW | {"max_tokens": DATASET["max_tokens"]}),
        *changes,
    )


def test_a_model_reads_up_to_its_own_length():
    found = with_lengths()
    plan = Plan(found)
    (own, *_), (usual, *_) = runs_of(found, "finetune", "short"), runs_of(found, "finetune", "sdpa")
    assert json.loads(own.settings)["max_tokens"] == 64
    assert json.loads(usual.settings)["max_tokens"] == DATASET["max_tokens"]
    assert own.tokenizer == usual.tokenizer == "wordpiece"
    assert plan.data(own)["train"].endswith("data/imdb/tokens/wordpiece@64/train")
    assert plan.data(usual)["train"].endswith("data/imdb/tokens/wordpiece/train")
    assert plan.tokenizer(own) == plan.tokenizer(usual)


def test_what_lengths_do_not_change_is_made_once():
    """Texts of a corpus have lengths of their own, and a length that is the dataset's is none."""
    found = with_lengths()
    assert not runs_of(found, "pretrain", "short")
    assert runs_of(found, "tapt", "short")
    assert {run.parent.model for run in runs_of(found, "tapt", "short")} == {"sdpa"}
    assert not [run for run in found.runs if run.id.model == "same"]


def test_other_runs_have_the_settings_that_they_had():
    before = {run.id: run.settings for run in study().runs}
    after = {run.id: run.settings for run in with_lengths().runs}
    assert before == {name: settings for name, settings in after.items() if name in before}


def test_tables_of_lengths_tell_readings_apart():
    report = Plan(with_lengths()).report
    assert report.tokenised == [
        ("wikipedia", "wordpiece"),
        ("imdb", "wordpiece@64"),
        ("imdb", "wordpiece"),
        ("arxiv", "wordpiece@64"),
        ("arxiv", "wordpiece"),
    ]


def test_a_length_beyond_the_backbone_is_refused():
    changes = [
        ("backbones/encoder/position_embedding_type", "learned"),
        ("backbones/encoder/max_position_embeddings", 128),
        ("models/long", ROW | {"max_tokens": 256}),
    ]
    with pytest.raises(ConfigError, match=r"reads 128 tokens at most, but imdb has max_tokens = 256 \(long\)"):
        study(*changes)


# Heads and tails


def test_a_tokeniser_says_which_tokens_stay():
    tail = {"source": "trained", "vocab_size": 500, "cut": "head_tail"}
    found = study(
        ("tokenizers/ends", tail), ("datasets/imdb/tokenizer", "wordpiece"), ("datasets/arxiv/tokenizer", "wordpiece"),
        ("corpora/wikipedia/tokenizer", "wordpiece"), ("models/ends", ROW | {"tokenizer": "ends"}),
    )  # fmt: skip
    plan = Plan(found)
    (head, *_), (ends, *_) = runs_of(found, "finetune", "sdpa"), runs_of(found, "finetune", "ends")
    assert plan.data(ends)["test"].endswith("tokens/ends/test")
    assert json.loads(head.settings) == json.loads(ends.settings) | {"model": "sdpa"}, "the tokeniser is an input"


SPANS = [
    ("datasets/imdb/label_per", "span"),
    ("stages", {"find": {"task": {"kind": "span_detection"}, "recipe": RECIPE, "data": {"imdb": {}}}}),
    ("datasets/arxiv", DELETE),
    ("models", {"sdpa": ROW}),
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            [("datasets/imdb/window_stride", 100), ("models/sdpa/max_tokens", 64)],
            "models.sdpa.max_tokens: a window holds 62 tokens and",
        ),
    ],
)
def test_windows_of_spans_leave_nothing_out(changes, message):
    study(*SPANS, ("models/sdpa/max_tokens", 64))
    with pytest.raises(ConfigError, match=message):
        study(*SPANS, *changes)


def test_a_teacher_of_states_reads_what_its_student_reads():
    """A dataset may be longer than the teacher reads, if the student is not."""
    short = ROW | {"max_tokens": 64, "skip": ["pretrain", "tapt"], "start": {"folder": "weights"}}
    found = study(
        ("backbones/encoder/position_embedding_type", "learned"),
        ("backbones/encoder/max_position_embeddings", 64),
        ("models", {"sdpa": short | {"skip": ["copy", *short["skip"]]}, "favor": short | {"mechanism": "favor-m64"}}),
        ("stages/copy", {"task": {"kind": "imitation", "teacher": "sdpa"}, "recipe": RECIPE, "data": {"imdb": {}}}),
        ("stages/finetune/start", DELETE),
    )
    (run, *_) = runs_of(found, "copy", "favor")
    assert run.max_tokens == 64
