"""Attention transfer in a published encoder: FAVOR+ learns its states, without an earlier stage."""

import pandas as pd
import pytest

from lib.core.record import read_record

pytestmark = [pytest.mark.real, pytest.mark.study]
RECIPE = {"epochs": 4, "steps": 9, "evaluate_every": 3, "learning_rate": 2e-4, "min_lr_ratio": 0.1, "batch_size": 8}


def test_a_published_encoder_teaches_itself_with_another_attention(copy_of_repository, minilm):
    texts = {"source": "generated", "generated": {"generator": "imdb", "documents": 110}}
    stage = {"task": {"kind": "imitation", "teacher": "minilm"}, "models": ["favor"], "data": {"texts": {}}}
    values = {
        "extensions": ["studies/conversion"],
        "experiment": {
            "seeds": [1],
            "precision": "fp32",
            "mechanisms": {"favor-m64": {"kind": "favor", "nb_features": 64}},
            "published": {"minilm": {"folder": str(minilm)}},
            "backbones": {"minilm": {"attention_dropout": 0.0}},
            "datasets": {"texts": texts | {"labels": ["negative", "positive"], "max_tokens": 32}},
            "stages": {
                "imitate": stage | {"recipe": RECIPE},
                "classify": {
                    "start": "imitate",
                    "task": {"kind": "sequence_classification"},
                    "recipe": {"epochs": 1, "learning_rate": 1e-4, "min_lr_ratio": 0.1, "batch_size": 8},
                    "data": {"texts": {}},
                    "models": ["favor"],
                },
            },
            "models": {
                "minilm": {"backbone": "minilm"},
                "favor": {"backbone": "minilm", "mechanism": "favor-m64"},
            },
        },
        "execution": {"results": "results/transfer", "training": {"device": "cpu", "workers": 0}, "job": {"gpu": 0}},
    }
    project = copy_of_repository("published")
    project.configure(values, "published.yaml")
    project.snakemake("--configfile", "published.yaml", "--cores", 2)
    runs = project.folder / "results/transfer/runs"
    imitated = runs / "imitate/favor/texts/seed-1"
    parents = read_record(imitated).parents
    assert parents["teacher"] == parents["start"]
    assert parents["teacher"].path == str(minilm)
    rows = pd.read_csv(imitated / "history.csv")
    assert rows["eval_unexplained_variance"].is_monotonic_decreasing
    assert rows["eval_document_cosine"].is_monotonic_increasing
    assert read_record(runs / "classify/favor/texts/seed-1").parents["start"].path.endswith("seed-1/model")
