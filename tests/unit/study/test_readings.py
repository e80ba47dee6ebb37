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


def test_length_of_a_model_makes_tokens_of_its_own():
    found = with_lengths()
    plan = Plan(found)
    (own, *_), (usual, *_) = runs_of(found, "finetune", "short"), runs_of(found, "finetune", "sdpa")
    assert json.loads(own.settings)["max_tokens"] == 64
    assert json.loads(usual.settings)["max_tokens"] == DATASET["max_tokens"]
    assert own.tokenizer == usual.tokenizer == "wordpiece"
    assert plan.data(own)["train"].endswith("data/imdb/tokens/wordpiece@64/train")
    assert plan.data(usual)["train"].endswith("data/imdb/tokens/wordpiece/train")
    assert plan.tokenizer(own) == plan.tokenizer(usual)
    # Texts of a corpus have lengths of their own, and a length that is the dataset's is none.
    assert not runs_of(found, "pretrain", "short")
    assert {run.parent.model for run in runs_of(found, "tapt", "short")} == {"sdpa"}
    assert not [run for run in found.runs if run.id.model == "same"]
    before = {run.id: run.settings for run in study().runs}
    assert before == {run.id: run.settings for run in found.runs if run.id in before}
    changes = [
        ("backbones/encoder/position_embedding_type", "learned"),
        ("backbones/encoder/max_position_embeddings", 128),
        ("models/long", ROW | {"max_tokens": 256}),
    ]
    with pytest.raises(ConfigError, match=r"reads 128 tokens .*max_tokens = 256 \(long\)"):
        study(*changes)


# Heads and tails


def test_tokeniser_of_head_and_tail_is_an_input():
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


def test_windows_of_spans_leave_nothing_out():
    short = ("models/sdpa/max_tokens", 64)
    study(*SPANS, short)
    with pytest.raises(ConfigError, match="models.sdpa.max_tokens: a window holds 62 tokens"):
        study(*SPANS, short, ("datasets/imdb/window_stride", 100))


def test_teacher_of_states_reads_up_to_its_students_length():
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
