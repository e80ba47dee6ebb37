"""One study compares how an encoder reads documents that are longer than it: cut, by their ends, and in segments."""

import json
import random

import pandas as pd
import pytest
import torch
from small_studies import executed_in
from transformers import BertConfig, BertModel

from lib.core.record import read_record
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_words

pytestmark = pytest.mark.study

WORDS = [f"{first}{vowel}{last}" for first in "bdgklm" for vowel in "aeiou" for last in "nrst"]
LONG, READ = 48, 16
SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SEGMENTS = {"kind": "hierarchical", "encoder": "bert", "segment": READ, "overlap": 4}
RECIPE = {"epochs": 5, "learning_rate": 5e-3, "min_lr_ratio": 0.1, "batch_size": 16}


def document(label, generator):
    """Return a text of which only the last quarter tells the class."""
    own = WORDS[20 * label : 20 * label + 20]
    return " ".join(generator.choices(WORDS[40:], k=30) + generator.choices(own, k=10))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The folder of an encoder as transformers saves it, which has 16 positions, and documents beside it."""
    folder = tmp_path_factory.mktemp("published")
    train_words(folder, [" ".join(WORDS)])
    size = len(TextTokenizer.load(folder).backend)
    torch.manual_seed(1)
    config = BertConfig(**SIZES, vocab_size=size, max_position_embeddings=READ, initializer_range=0.2)
    BertModel(config).save_pretrained(folder)
    generator = random.Random(1)
    labels = [number % 2 for number in range(240)]
    texts = [document(label, generator) for label in labels]
    pd.DataFrame({"text": texts, "label": labels}).to_csv(folder / "posts.csv", index=False)
    return folder


def study(folder):
    return {
        "experiment": {
            "seeds": [5],
            "precision": "fp32",
            "published": {"bert": {"folder": str(folder)}},
            "backbones": {
                "bert-segments": SEGMENTS,
                "bert-ordered": SEGMENTS | {"pooling": "transformer", "document_layers": 1},
                "words": {"kind": "tfidf", "min_df": 1},
            },
            "tokenizers": {
                "ends": {"algorithm": "published", "source": "local", "path": str(folder), "cut": "head_tail"}
            },
            "datasets": {
                "posts": {
                    "source": "local",
                    "local": {"files": {"all": [str(folder / "posts.csv")]}},
                    "labels": ["no", "yes"],
                    "max_tokens": LONG,
                }
            },
            "stages": {
                "classify": {"task": {"kind": "sequence_classification"}, "recipe": RECIPE, "data": {"posts": {}}},
                "again": {"start": "classify", "task": {"kind": "sequence_classification"}, "data": {"posts": {}}},
            },
            "models": {
                "words": {"backbone": "words", "skip": ["again"]},
                "head": {"backbone": "bert", "max_tokens": READ},
                "ends": {"backbone": "bert", "max_tokens": READ, "tokenizer": "ends"},
                "segments": {"backbone": "bert-segments"},
                "ordered": {"backbone": "bert-ordered", "max_tokens": 40},
            },
        },
        "report": {
            "tables": {
                "scores": {"stage": "classify", "columns": ["f1"]},
                "again": {"stage": "again", "columns": ["f1"]},
                "lengths": {"kind": "token_lengths"},
                "parameters": {"stage": "classify", "columns": ["parameters_embeddings", "parameters"]},
            },
        },
        "execution": executed_in("results/long"),
    }


@pytest.fixture(scope="module")
def finished(run_study, published):
    return run_study(study(published))


def run(project, model, stage="classify"):
    return project.results / "runs" / stage / model / "posts" / "seed-5"


def test_what_is_read_decides_what_is_learnt(finished):
    """The end of a document tells its class: to the words, to its ends and to its segments, and not to its head."""
    scores = pd.read_csv(finished.results / "tables" / "scores.csv").set_index("model")["posts"]
    assert list(scores.index) == ["words", "head", "ends", "segments", "ordered"]
    assert scores["head"] < 70
    assert scores.drop("head").min() > 90


def test_each_row_has_its_own_tokens_and_equal_ones_share_them(finished):
    tokens = finished.results / "data" / "posts" / "tokens"
    longest = {
        path.name: json.loads((path / "token_lengths.json").read_text())["test"]["max"] for path in tokens.iterdir()
    }
    assert longest == {"bert": 42, "bert@16": 16, "ends@16": 16, "bert@40": 40}
    lengths = pd.read_csv(finished.results / "tables" / "lengths.csv")
    assert set(lengths["tokenizer"]) == set(longest)


def test_segments_are_evaluated_as_they_were_trained(finished):
    for model in ("segments", "ordered"):
        first, again = (run(finished, model, stage) for stage in ("classify", "again"))
        predictions = (pd.read_parquet(folder / "predictions.parquet") for folder in (first, again))
        pd.testing.assert_frame_equal(*predictions, check_exact=True)
        assert read_record(again).parents["start"].path.endswith(f"classify/{model}/posts/seed-5/model")


def test_segments_start_from_the_published_weights(finished, published):
    for model in ("segments", "head"):
        assert read_record(run(finished, model)).parents["start"].path == str(published)
    parts = pd.read_csv(finished.results / "tables" / "parameters.csv").set_index("model")
    assert parts.loc["segments"].equals(parts.loc["head"]), "the mean has no weights"


def test_nothing_is_left_to_do(finished):
    assert finished.stale("long.yaml") == {}
