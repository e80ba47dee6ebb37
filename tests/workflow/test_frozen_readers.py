"""Encoders that do not train, from a user's file to tables: their vectors are made once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel

from lib.predicting.reader import open_reader
from lib.tokens.vocabularies import train_wordpiece

pytestmark = pytest.mark.study

WORDS = ["bright", "sweet", "dull", "grim", "film", "plot"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
FIRST = {"kind": "frozen", "encoders": ["bert"]}
RECIPE = {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.1, "batch_size": 16}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    generator = np.random.default_rng(1)
    labels = [number % 2 for number in range(160)]
    texts = [" ".join([*generator.choice(WORDS, 6), WORDS[2 * label]]) for label in labels]
    pd.DataFrame({"text": texts, "label": labels}).to_csv(folder / "texts.csv", index=False)
    size = len(train_wordpiece(folder / "bert", texts, vocab_size=60).backend)
    torch.manual_seed(1)
    BertModel(BertConfig(vocab_size=size, max_position_embeddings=32, **SIZES)).save_pretrained(folder / "bert")
    data = {"source": "local", "local": {"files": {"train": [str(folder / "texts.csv")]}}, "labels": ["0", "1"]}
    return {
        "experiment": {
            "seeds": [1, 2],
            "precision": "fp32",
            "encoders": {"bert": {"folder": str(folder / "bert"), "segment": 32}},
            "backbones": {"frozen": FIRST, "folds": FIRST | {"C": "folds", "tfidf": {"min_df": 1}}},
            "datasets": {"texts": data | {"max_tokens": 16}},
            "stages": {
                "classify": {"task": {"kind": "sequence_classification"}, "recipe": RECIPE, "data": {"texts": {}}}
            },
            "models": {"frozen": {"backbone": "frozen"}, "folds": {"backbone": "folds"}},
        },
        "report": {"tables": {"f1": {"stage": "classify", "columns": ["f1"]}}},
        "execution": {"results": "results/frozen", "training": {"device": "cpu"}, "job": {"gpu": 0}},
    }


@pytest.fixture(scope="module")
def made(run_study, study):
    return run_study(study)


def changed(made, study, **experiment):
    return made.stale(made.configure(study | {"experiment": study["experiment"] | experiment}, "frozen.changed.yaml"))


def test_vectors_serve_all_rows_and_seeds(made, study):
    assert made.stale("frozen.yaml") == {}
    backbones = study["experiment"]["backbones"] | {"ridge": FIRST | {"decision": "ridge"}}
    models = study["experiment"]["models"] | {"ridge": {"backbone": "ridge"}}
    found = changed(made, study, backbones=backbones, models=models)
    assert found == {"evaluate": 2, "table_f1": 1, "all": 1, "total": 4}  # two seeds of the new row


def test_vectors_of_another_encoder_or_cut_are_made_again(made, study):
    place = study["experiment"]["encoders"]["bert"]
    found = changed(made, study, encoders={"bert": place | {"max_tokens": 5}})
    assert (found["encode_dataset"], found["evaluate"]) == (1, 4)
    weights = Path(place["folder"], "model.safetensors")
    kept = weights.read_bytes()
    weights.write_bytes(kept[:-4] + bytes(4))
    found = made.stale("frozen.yaml")
    weights.write_bytes(kept)
    assert (found["encode_dataset"], found["evaluate"]) == (1, 4)


@pytest.mark.parametrize("model", ["frozen", "folds"])
def test_predictions_of_the_kept_model(model, made):
    run = made.results / f"runs/classify/{model}/texts/seed-1"
    found = pd.read_parquet(run / "predictions.parquet").query("split == 'test'")
    documents = pd.read_parquet(made.results / "data/texts/prepared/test.parquet")
    answers = open_reader(run).probabilities(documents["text"].tolist())
    np.testing.assert_array_equal(answers, np.stack(found["probabilities"]))
    assert (found["prediction"] == found["label"]).mean() > 0.7
