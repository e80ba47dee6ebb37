"""A study that describes its texts, and tests on templates what it trained elsewhere."""

import random

import pandas as pd
import pytest
from small_studies import executed_in

from lib.core.record import read_record
from studies.hate_speech.generators.hate_templates import FUNCTIONS

pytestmark = pytest.mark.study

LABELS = ["non-hateful", "hateful"]
WORDS = [f"{first}{vowel}{last}" for first in "bdgklm" for vowel in "aeiou" for last in "nrst"]


@pytest.fixture(scope="module")
def posts(tmp_path_factory):
    """Posts with a class each, the last ten of which repeat others but for a word."""
    rng = random.Random(2)
    labels = [number % 2 for number in range(200)]
    texts = [["hate" if label else "love", *rng.choices(WORDS, k=rng.randint(8, 30))] for label in labels[:190]]
    texts += [[*words[:-1], "now"] for words in texts[:10]]
    rows = {"text": [" ".join(words) for words in texts], "label": [LABELS[label] for label in labels]}
    file = tmp_path_factory.mktemp("posts") / "posts.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    return file


def study(posts):
    recipe = {"epochs": 2, "learning_rate": 5e-3, "min_lr_ratio": 0.1, "batch_size": 16}
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return {
        "extensions": ["studies/hate_speech", "studies/toy"],
        "experiment": {
            "seeds": [5],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}},
            "backbones": {"small": {"kind": "encoder"} | sizes, "words": {"kind": "tfidf", "min_df": 1}},
            "tokenizers": {"wordpiece": {"source": "trained", "vocab_size": 300, "corpus": "posts"}},
            "datasets": {
                "posts": {
                    "source": "local",
                    "local": {"files": {"all": [str(posts)]}},
                    "labels": LABELS,
                    "max_tokens": 48,
                },
                "templates": {
                    "source": "generated",
                    "generated": {
                        "documents": 84,
                        "generator": "hate_templates",
                        "options": {"validation": 12, "test": 60},
                    },
                    "split": {"published": True},
                    "labels": LABELS,
                    "group": "group",
                    "max_tokens": 48,
                },
            },
            "stages": {
                "classify": {"task": {"kind": "sequence_classification"}, "recipe": recipe, "data": {"posts": {}}},
                "check": {
                    "start": "classify",
                    "task": {"kind": "sequence_classification"},
                    "data": {"templates": {}},
                },
            },
            "models": {"tfidf": {"backbone": "words"}, "sdpa": {"backbone": "small", "mechanism": "sdpa"}},
        },
        "report": {
            "tables": {
                "texts": {"kind": "texts"},
                "functions": {"kind": "groups", "stage": "check", "rows": "groups", "label": "function"},
                "errors": {"kind": "errors", "stage": "classify"},
                "leak": {"kind": "errors", "stage": "classify", "by": "near_copy"},
            },
            "figures": {
                "words": {"kind": "words"},
                "languages": {"kind": "languages", "datasets": ["templates"]},
                "functions": {"kind": "group_score", "stage": "check", "label": "function"},
            },
        },
        "execution": executed_in("results/posts"),
    }


@pytest.fixture(scope="module")
def finished(run_study, posts):
    return run_study(study(posts))


def table(finished, name):
    return pd.read_csv(finished.results / "tables" / f"{name}.csv")


def test_texts_described_once(finished):
    texts = table(finished, "texts").set_index(["dataset", "split"])
    assert texts.loc["posts", "documents"].tolist() == [160, 20, 20]
    assert texts.loc["posts", "class_hateful"].tolist() == [50, 50, 50]
    assert texts.loc["posts", "near_copies"].iloc[1:].sum() > 0, "ten posts are near copies of others"
    assert texts.loc["posts", "words_max"].max() <= 31
    assert texts.loc["templates", "documents"].tolist() == [12, 12, 60]
    for name in ("words", "languages", "functions"):
        assert (finished.results / "figures" / f"{name}.svg").stat().st_size > 1000


def test_trained_model_on_templates(finished):
    functions = table(finished, "functions")
    assert functions["function"].tolist() == [function.name for function in FUNCTIONS]
    assert functions.columns.tolist() == ["function", "tfidf", "sdpa"]
    places = {model: finished.results / f"runs/check/{model}/templates/seed-5" for model in ("tfidf", "sdpa")}
    baseline, encoder = (read_record(folder).parents for folder in places.values())
    assert baseline["train"].path.endswith("data/posts/prepared/train.parquet")
    assert baseline["test"].path.endswith("data/templates/prepared/test.parquet")
    assert encoder["start"].path.endswith("classify/sdpa/posts/seed-5/model")
    predictions = pd.read_parquet(places["tfidf"] / "predictions.parquet").query("split == 'test'").set_index("id")
    texts = pd.read_parquet(finished.results / "data/templates/prepared/test.parquet").set_index("id")["text"]
    hated = predictions.loc[texts.str.contains(r"\bhate\b", case=False), "prediction"]
    assert len(hated)
    assert hated.all(), "the baseline knows the word from the posts that it was fitted to"


def test_errors_by_length_and_copies(finished):
    errors = table(finished, "errors")
    assert errors["model"].tolist() == ["tfidf", "sdpa"]
    assert 2 <= len(errors.columns) - 1 <= 4
    assert errors.loc[0].drop("model").le(25).all(), "one word tells the class"
    assert set(table(finished, "leak").columns) <= {"model", "no near copy in training", "near copy in training"}


def test_near_copies_concern_no_run(finished, posts):
    assert finished.stale("posts.yaml") == {}
    values = study(posts)
    values["experiment"]["datasets"]["posts"]["near_copies"] = {"threshold": 0.9}
    jobs = finished.stale(finished.configure(values))
    assert set(jobs) == {
        "describe_dataset",
        "table_texts",
        "table_errors",
        "table_leak",
        "figure_words",
        "all",
        "total",
    }
    assert jobs["describe_dataset"] == 1
