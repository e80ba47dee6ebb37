"""Pairs of texts, labels that are numbers, and a test split without labels, from a user's own files to tables."""

import json
import random

import numpy as np
import pandas as pd
import pytest

from lib.core.record import read_record
from lib.predicting.predict import predict

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
    """Pairs with classes (CSV, none in test) and pairs with numbers (JSON lines)."""
    folder = tmp_path_factory.mktemp("pairs")
    generator = random.Random(1)
    for part, size in (("train", 160), ("validation", 40), ("test", 30)):
        labels = [number % 2 for number in range(size)]
        pairs = [pair(generator, 0.9 - 0.8 * label) for label in labels]
        frame = pd.DataFrame(pairs, columns=["premise", "hypothesis"]).assign(kind=[KINDS[label] for label in labels])
        (frame if part != "test" else frame.drop(columns="kind")).to_csv(folder / f"claims-{part}.csv", index=False)
        scores = [round(5 * number / (size - 1), 2) for number in range(size)]
        numbered = pd.DataFrame([pair(generator, score / 5) for score in scores], columns=["a", "b"])
        numbered.assign(score=scores).to_json(folder / f"likeness-{part}.jsonl", orient="records", lines=True)
    return folder


def dataset(files, name, suffix, **fields):
    """Return the section of a dataset whose parts are its splits."""
    parts = {part: [str(files / f"{name}-{part}.{suffix}")] for part in ("train", "validation", "test")}
    return {"source": "local", "local": {"files": parts}, "split": {"published": True}} | fields


def study(files):
    """Return a study of two kinds of pairs."""
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
            "tokenizers": {"words": {"source": "trained", "algorithm": "words", "corpus": ["claims", "likeness"]}},
            "datasets": {
                "claims": dataset(files, "claims", "csv", **claims, max_tokens=20)
                | {"split": {"published": True, "test_labels": False}},
                "likeness": dataset(files, "likeness", "jsonl", text="a", text_pair="b", label="score")
                | {"label_range": [0, 5], "max_tokens": 20, "tokenizer": "words"},
            },
            "stages": {
                "judge": {
                    "task": {"kind": "sequence_classification", **task},
                    "recipe": recipe,
                    "data": {"claims": {}, "likeness": {"task": {"kind": "regression"}}},
                }
            },
            "models": {
                "counting": {"backbone": "words", "datasets": ["claims"]},
                "plain": {"backbone": "plain", "mechanism": "sdpa"},
                "segments": {"backbone": "segments", "mechanism": "sdpa"},
                "bert": {"backbone": "bert", "datasets": ["claims"]},
            },
        },
        "report": {
            "tables": {
                "classes": CLAIMS | {"columns": ["validation_f1", "validation_matthews"]},
                "numbers": {"stage": "judge", "datasets": ["likeness"], "columns": ["pearson", "spearman", "test_mse"]},
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


def test_pairs_learnt_and_unlabelled_test_predicted(made):
    for model in ("counting", "plain", "segments", "bert"):
        folder = run(made, "judge", model, "claims")
        metrics = read_record(folder).metrics
        assert metrics["eval_accuracy"] > 0.8, "only the second texts tell"
        assert not [name for name in metrics if name.startswith("test_")]
        by_split = pd.read_parquet(folder / "predictions.parquet").groupby("split")
        assert by_split["label"].count().to_dict() == {"test": 0, "validation": 40}
        assert by_split["prediction"].count().to_dict() == {"test": 30, "validation": 40}
    summary = json.loads((made.results / "data" / "claims" / "prepared" / "summary.json").read_text())
    assert summary["splits"]["test"]["labels"] == {"agrees": 0, "differs": 0}


def test_numbers_learnt_and_shown(made):
    table = pd.read_csv(made.results / "tables" / "numbers.csv").set_index("model")
    for model in ("plain", "segments"):
        folder = run(made, "judge", model, "likeness")
        metrics = read_record(folder).metrics
        assert metrics["test_pearson"] > 0.6
        found = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'")
        for name in ("pearson", "spearman"):
            assert metrics[f"test_{name}"] == pytest.approx(found["label"].corr(found["prediction"], name))
        assert table.loc[model, "likeness_pearson"] == pytest.approx(metrics["test_pearson"], abs=1e-4)


def test_predicted_by_hand_as_in_the_run(made, tmp_path):
    rows = [(model, "claims") for model in ("counting", "plain", "segments", "bert")]
    for model, entry in (*rows, ("plain", "likeness"), ("segments", "likeness")):
        folder = run(made, "judge", model, entry)
        source = made.results / "data" / entry / "prepared/test.parquet"
        predict(folder, source, tmp_path / "out.csv", column="text", pair_column="text_pair", id="id", device="cpu")
        found = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip", dtype={"id": str}).set_index("id")
        recorded = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").set_index("id")
        expected = {"prediction": recorded["prediction"]}
        if entry == "claims":
            expected = dict(zip(KINDS, np.stack(recorded["probabilities"]).T, strict=True))
            assert found.loc[recorded.index, "label"].tolist() == [KINDS[each] for each in recorded["prediction"]]
        for name, values in expected.items():
            own = found.loc[recorded.index, name].to_numpy(values.dtype)
            assert own.tolist() == values.tolist(), (model, entry, name)
