"""The house is general: a study is a configuration file alone, and a table is one new file."""

import json
import random
import re

import pandas as pd
import pytest
from safetensors.torch import load_file
from small_studies import executed_in

from lib.core.record import read_record

pytestmark = pytest.mark.study

COLOURS = ["red", "green", "blue"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
RECIPE = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 16}
SMALL = {"backbone": "small", "mechanism": "sdpa", "tokenizer": "coarse"}
CLASSIFY = {"kind": "sequence_classification", "classifier_dropout": 0.0}
WORDS = [f"{first}{vowel}{last}" for first in "bdgklm" for vowel in "aeiou" for last in "nrst"]


def document(generator, label):
    """Return words among which those of a class are more frequent."""
    own = WORDS[40 * label : 40 * label + 40]
    return " ".join(generator.choices(own if generator.random() < 0.7 else WORDS, k=1)[0] for _ in range(20))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A corpus of letters and a dataset of notes with three classes, as a user's own files."""
    folder = tmp_path_factory.mktemp("texts")
    generator = random.Random(1)
    (folder / "letters.txt").write_text("".join(f"{document(generator, n % 3)}\n" for n in range(150)))
    labels = [number % 3 for number in range(240)]
    notes = {"note": [document(generator, label) for label in labels], "colour": [COLOURS[label] for label in labels]}
    pd.DataFrame(notes).to_csv(folder / "notes.csv", index=False)
    return folder


def study(texts):
    """Return a study that shares nothing with the grid."""
    return {
        "experiment": {
            "seeds": [5],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}, "favor-m16": {"kind": "favor", "nb_features": 16}},
            "backbones": {
                "small": {"kind": "encoder", **SIZES, "initializer_range": 0.1},
                "reader": {"kind": "recurrent", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 1},
                "words": {"kind": "tfidf", "min_df": 1},
            },
            "tokenizers": {
                "coarse": {"source": "trained", "vocab_size": 120, "corpus": "letters"},
                "fine": {"source": "trained", "vocab_size": 400, "corpus": "notes"},
            },
            "corpora": {
                "letters": {
                    "source": "local",
                    "local": {"files": {"train": [str(texts / "letters.txt")]}},
                    "short": {"articles": 100, "max_tokens": 24},
                    "long": {"articles": 0, "max_tokens": 24},
                    "held_out": {"articles": 20, "max_tokens": 24},
                }
            },
            "datasets": {
                "notes": {
                    "source": "local",
                    "local": {"files": {"all": [str(texts / "notes.csv")]}},
                    "text": "note",
                    "label": "colour",
                    "labels": COLOURS,
                    "max_tokens": 32,
                }
            },
            "stages": {
                "read": {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {"letters": {}}},
                "settle": {
                    "start": "read",
                    "task": {"kind": "masked_lm", "mask_probability": 0.2},
                    "recipe": RECIPE,
                    "data": {"notes": {}},
                },
                "judge": {
                    "start": "settle",
                    "task": CLASSIFY,
                    "recipe": RECIPE | {"epochs": 4, "learning_rate": 5e-3},
                    "data": {"notes": {}},
                },
                "again": {"start": "judge", "task": CLASSIFY, "data": {"notes": {}}},
            },
            "models": {
                "counting": {"backbone": "words", "skip": ["read", "settle", "again"]},
                "whole": SMALL,
                "hasty": SMALL | {"skip": ["settle"], "changes": {"again": {"mechanism": "favor-m16"}}},
                "reading": {"backbone": "reader", "tokenizer": "coarse"},
                "swapped": SMALL | {"changes": {"settle": {"mechanism": "favor-m16"}}, "skip": ["again"]},
                "finer": {"backbone": "small", "mechanism": "favor-m16", "tokenizer": "fine", "skip": ["again"]},
            },
        },
        "report": {
            "tables": {
                "lengths": {"kind": "token_lengths"},
                "read": {"stage": "read", "columns": ["minutes", "loss"]},
                "scores": {"stage": "judge", "columns": ["f1", "test_accuracy"]},
                "again": {"stage": "again", "columns": ["f1"]},
                "classes": {"kind": "classes", "stage": "judge", "models": ["counting"]},
            },
            "figures": {"cost": {"kind": "score_time", "stage": "judge", "time": ["settle", "judge"]}},
            "baseline": "counting",
        },
        "execution": executed_in("results/notes"),
    }


@pytest.fixture(scope="module")
def finished(run_study, texts):
    return run_study(study(texts))


def run(project, stage, model, dataset):
    return project.results / "runs" / stage / model / dataset / "seed-5"


def test_runs_are_shared_and_start_where_models_say(finished):
    """Nothing of the grid is planned, and nothing lies outside the study's own folder."""
    assert {path.name for path in (finished.folder / "results").iterdir()} == {"notes"}
    assert finished.stale("notes.yaml") == {}
    made = {path.name: {run.name for run in path.iterdir()} for path in (finished.results / "runs").iterdir()}
    assert made == {
        "read": {"whole", "reading", "finer"},
        "settle": {"whole", "reading", "swapped", "finer"},
        "judge": {"counting", "whole", "hasty", "reading", "swapped", "finer"},
        "again": {"whole", "hasty", "reading"},
    }
    for stage, model, start in (
        ("settle", "swapped", "read/whole/letters"),
        ("judge", "swapped", "settle/swapped/notes"),
        ("judge", "hasty", "read/whole/letters"),
    ):
        assert read_record(run(finished, stage, model, "notes")).parents["start"].path.endswith(f"{start}/seed-5/model")

    for stage, model, kind in (
        ("settle", "whole", "sdpa"),
        ("settle", "swapped", "favor"),
        ("judge", "swapped", "favor"),
    ):
        config = run(finished, stage, model, "notes") / "model" / "config.json"
        assert json.loads(config.read_text())["mechanism"]["kind"] == kind
    sizes = {
        model: load_file(run(finished, "judge", model, "notes") / "model" / "model.safetensors")[
            "encoder.embeddings.word_embeddings.weight"
        ].shape[0]
        for model in ("whole", "finer")
    }
    assert sizes["whole"] <= 120 < sizes["finer"] <= 400


def test_trained_model_is_evaluated_as_it_is(finished):
    for model in ("whole", "reading"):
        first, again = (run(finished, stage, model, "notes") for stage in ("judge", "again"))
        predictions = (pd.read_parquet(folder / "predictions.parquet") for folder in (first, again))
        pd.testing.assert_frame_equal(*predictions, check_exact=True)
        record = read_record(again)
        assert record.metrics["test_f1_macro"] == read_record(first).metrics["test_f1_macro"]
        assert (record.epochs, set(record.parents)) == (0, {"start", "tokenizer", "validation", "test"})
    # With another mechanism, the scores are others.
    first, again = (read_record(run(finished, stage, "hasty", "notes")).metrics for stage in ("judge", "again"))
    assert first["eval_loss"] != again["eval_loss"]


def test_tables_that_the_study_asks_for(finished):
    tables = finished.results / "tables"
    assert {path.stem for path in tables.glob("*.csv")} == {"lengths", "read", "scores", "again", "classes_notes"}
    scores = pd.read_csv(tables / "scores.csv")
    assert scores["model"].tolist() == ["counting", "whole", "hasty", "reading", "swapped", "finer"]
    assert list(scores.columns) == ["model", "notes_f1_macro_percent", "notes_test_accuracy"]
    assert (scores["notes_f1_macro_percent"] > 100 / 3).all()
    assert pd.read_csv(tables / "classes_notes.csv")["label"].tolist() == [*COLOURS, "accuracy", "macro average"]


PAGE = "docs/add_table.md"
"""Shows a table of one file."""


def test_table_of_a_page_is_one_new_file(repository, finished):
    documented = re.findall(r"```python\n# (lib/results/\S+)\n(.*?)```", (repository / PAGE).read_text(), re.DOTALL)
    assert documented
    for path, text in documented:
        (finished.folder / path).write_text(text)
    ranks = {"kind": "ranks", "stage": "judge", "column": "test_accuracy"}
    more = finished.configure({"extends": "notes.yaml", "report": {"tables": {"ranks": ranks}}}, "more.yaml")
    finished.snakemake("--cores", 1, "--configfile", more)
    tables = finished.results / "tables"
    scores = pd.read_csv(tables / "scores.csv").set_index("model")["notes_test_accuracy"]
    found = pd.read_csv(tables / "ranks.csv").set_index("model")["notes"]
    assert scores[found.idxmin()] == scores.max()
    assert set(found.index) == set(scores.index)
    wrong = {"extends": "more.yaml", "report": {"tables": {"ranks": {"stages": ["judge"]}}}}
    finished.configure(wrong, "wrong.yaml")
    message = finished.snakemake("-n", "--configfile", "wrong.yaml", check=False).stdout
    assert "report.tables.ranks.stages: unknown key" in message
