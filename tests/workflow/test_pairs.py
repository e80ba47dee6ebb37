"""Pairs of texts, labels that are numbers, and a test split without labels, from a user's own files to tables."""

import json
import random

import pandas as pd
import pytest

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.training.predict import predict

pytestmark = pytest.mark.study

WORDS = [f"{first}{vowel}{last}" for first in "bdgkl" for vowel in "aeiou" for last in "nrst"]
KINDS = ["agrees", "differs"]
CLAIMS = {"stage": "judge", "datasets": ["claims"]}
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def pair(generator, share):
    """Return two texts; of the words of the second one such a share is of the first half of the vocabulary."""
    first = generator.choices(WORDS, k=6)
    second = [generator.choice(WORDS[:50] if generator.random() < share else WORDS[50:]) for _ in range(8)]
    return " ".join(first), " ".join(second)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pairs with classes (CSV, none in test), pairs with numbers (JSON lines) and pairs as bytes (Parquet)."""
    folder = tmp_path_factory.mktemp("pairs")
    generator = random.Random(1)
    for part, size in (("train", 160), ("validation", 40), ("test", 30)):
        labels = [number % 2 for number in range(size)]
        pairs = [pair(generator, 0.9 - 0.8 * label) for label in labels]
        frame = pd.DataFrame(pairs, columns=["premise", "hypothesis"]).assign(kind=[KINDS[label] for label in labels])
        (frame if part != "test" else frame.drop(columns="kind")).to_csv(folder / f"claims-{part}.csv", index=False)
        frame.rename(columns={"premise": "text1", "hypothesis": "text2"}).to_parquet(folder / f"papers-{part}.parquet")
        scores = [round(5 * number / (size - 1), 2) for number in range(size)]
        numbered = pd.DataFrame([pair(generator, score / 5) for score in scores], columns=["a", "b"])
        numbered.assign(score=scores).to_json(folder / f"likeness-{part}.jsonl", orient="records", lines=True)
    return folder


def dataset(files, name, suffix, **fields):
    """Return the section of a dataset whose parts are its splits."""
    parts = {part: [str(files / f"{name}-{part}.{suffix}")] for part in ("train", "validation", "test")}
    return {"source": "local", "local": {"files": parts}, "split": {"published": True}} | fields


def study(files):
    """Return a study of three kinds of pairs."""
    recipe = {"epochs": 4, "learning_rate": 1e-2, "min_lr_ratio": 0.1, "batch_size": 16}
    task = {"classifier_dropout": 0.0}
    claims = {"text": "premise", "text_pair": "hypothesis", "label": "kind", "labels": KINDS, "tokenizer": "words"}
    encoder = {"kind": "encoder", **SIZES, "initializer_range": 0.1}
    bert = {"model_type": "bert", **SIZES, "max_position_embeddings": 32, "type_vocab_size": 2}
    return {
        "experiment": {
            "seeds": [3],
            "precision": "fp32",
            "mechanisms": {"sdpa": {"kind": "sdpa"}},
            "backbones": {
                "plain": encoder,
                "segments": encoder | {"type_vocab_size": 2},
                "bert": {"kind": "pretrained", "architecture": bert},
                "words": {"kind": "tfidf", "min_df": 1},
            },
            "tokenizers": {
                "words": {"source": "trained", "algorithm": "words", "corpus": ["claims", "likeness"]},
                "bytes": {"algorithm": "bytes"},
            },
            "datasets": {
                "claims": dataset(files, "claims", "csv", **claims, max_tokens=20)
                | {"split": {"published": True, "test_labels": False}},
                "likeness": dataset(files, "likeness", "jsonl", text="a", text_pair="b", label="score")
                | {"label_range": [0, 5], "max_tokens": 20, "tokenizer": "words"},
                "papers": dataset(files, "papers", "parquet", text="text1", text_pair="text2", pairs="separately")
                | {"label": "kind", "labels": KINDS, "max_tokens": 16, "tokenizer": "bytes"},
            },
            "stages": {
                "judge": {
                    "task": {"kind": "sequence_classification", **task},
                    "recipe": recipe,
                    "data": {"claims": {}, "likeness": {"task": {"kind": "regression"}}},
                },
                "retrieve": {
                    "task": {"kind": "pair_classification", **task},
                    "recipe": recipe | {"epochs": 1},
                    "data": {"papers": {}},
                },
            },
            "models": {
                "counting": {"backbone": "words", "skip": ["retrieve"], "datasets": ["claims"]},
                "plain": {"backbone": "plain", "mechanism": "sdpa"},
                "segments": {"backbone": "segments", "mechanism": "sdpa", "skip": ["retrieve"]},
                "bert": {"backbone": "bert", "skip": ["retrieve"], "datasets": ["claims"]},
            },
        },
        "report": {
            "tables": {
                "classes": {
                    "stage": "judge",
                    "datasets": ["claims"],
                    "columns": ["validation_f1", "validation_matthews"],
                },
                "numbers": {"stage": "judge", "datasets": ["likeness"], "columns": ["pearson", "spearman", "test_mse"]},
                "retrieval": {"stage": "retrieve", "columns": ["accuracy"]},
            }
        },
        "execution": {"results": "results/pairs", "training": {"device": "cpu"}},
    }


@pytest.fixture(scope="module")
def made(files, run_study):
    return run_study(study(files))


def run(made, stage, model, entry):
    """Return folder of a run."""
    return made.results / "runs" / stage / model / entry / "seed-3"


@pytest.mark.parametrize("model", ["counting", "plain", "segments", "bert"])
def test_pairs_are_learnt_from_their_second_texts(made, model):
    assert read_record(run(made, "judge", model, "claims")).metrics["eval_accuracy"] > 0.8


@pytest.mark.parametrize("model", ["counting", "plain"])
def test_a_test_split_without_labels_has_predictions_and_no_scores(made, model):
    folder = run(made, "judge", model, "claims")
    assert not [name for name in read_record(folder).metrics if name.startswith("test_")]
    predictions = pd.read_parquet(folder / "predictions.parquet")
    by_split = predictions.groupby("split")
    assert by_split["label"].count().to_dict() == {"test": 0, "validation": 40}
    assert by_split["prediction"].count().to_dict() == {"test": 30, "validation": 40}


@pytest.mark.parametrize("model", ["plain", "segments"])
def test_numbers_are_learnt(made, model):
    folder = run(made, "judge", model, "likeness")
    metrics = read_record(folder).metrics
    assert metrics["test_pearson"] > 0.6
    predictions = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'")
    assert metrics["test_pearson"] == pytest.approx(predictions["label"].corr(predictions["prediction"]))
    assert metrics["test_spearman"] == pytest.approx(predictions["label"].corr(predictions["prediction"], "spearman"))


def test_both_texts_of_a_pair_read_separately_count_to_its_tokens(made):
    record = read_record(run(made, "retrieve", "plain", "papers"))
    assert record.tokens == 160 * 2 * 16
    assert "test_accuracy" in record.metrics


def test_tables_show_correlations(made):
    numbers = pd.read_csv(made.results / "tables" / "numbers.csv").set_index("model")
    record = read_record(run(made, "judge", "plain", "likeness"))
    assert numbers.loc["plain", "likeness_pearson"] == pytest.approx(record.metrics["test_pearson"], abs=1e-4)
    classes = pd.read_csv(made.results / "tables" / "classes.csv").set_index("model")
    assert classes["claims_validation_matthews"].notna().all()


def test_the_summary_counts_no_class_of_documents_without_labels(made):
    summary = json.loads((made.results / "data" / "claims" / "prepared" / "summary.json").read_text())
    assert summary["splits"]["test"] | {"duplicate_texts": 0} == {
        "documents": 30,
        "labels": {"agrees": 0, "differs": 0},
        "duplicate_texts": 0,
    }


@pytest.mark.parametrize(
    ("stage", "model", "entry", "file", "columns"),
    [
        ("judge", "plain", "claims", "claims-test.csv", ("premise", "hypothesis")),
        ("judge", "segments", "claims", "claims-test.csv", ("premise", "hypothesis")),
        ("judge", "bert", "claims", "claims-test.csv", ("premise", "hypothesis")),
        ("judge", "segments", "likeness", "likeness-test.jsonl", ("a", "b")),
        ("retrieve", "plain", "papers", "papers-test.parquet", ("text1", "text2")),
    ],
)
def test_pairs_are_predicted_by_hand_as_in_the_run(made, files, tmp_path, stage, model, entry, file, columns):
    folder = run(made, stage, model, entry)
    predict(folder / "model", files / file, tmp_path / "out.csv", column=columns[0], pair_column=columns[1])
    found = pd.read_csv(tmp_path / "out.csv")
    recorded = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").reset_index(drop=True)
    if entry == "likeness":
        pd.testing.assert_series_equal(found["prediction"], recorded["prediction"], rtol=1e-4, atol=1e-5)
    else:
        assert found["label"].tolist() == [KINDS[number] for number in recorded["prediction"]]
        first = recorded["probabilities"].map(lambda each: each[0])
        assert found[KINDS[0]].to_numpy() == pytest.approx(first.to_numpy(), abs=1e-5)


@pytest.mark.parametrize(
    ("stage", "entry", "file", "column"),
    [("retrieve", "papers", "papers-test.parquet", "text1"), ("judge", "claims", "claims-test.csv", "premise")],
)
def test_a_model_of_pairs_is_not_given_single_texts(made, files, tmp_path, stage, entry, file, column):
    model = run(made, stage, "plain", entry) / "model"
    with pytest.raises(RunError, match="was trained on pairs of texts.*--pair-column"):
        predict(model, files / file, tmp_path / "out.csv", column=column)
