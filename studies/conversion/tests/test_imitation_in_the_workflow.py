"""Attention transfer from end to end: pretrained with exact attention, FAVOR+ learns its states, then fine-tuning."""

import json

import pandas as pd
import pytest

from lib.core.record import read_record

pytestmark = pytest.mark.study

RECIPE = {"epochs": 6, "learning_rate": 3e-3, "min_lr_ratio": 0.5, "batch_size": 16}
TEXTS = {
    "source": "generated",
    "generated": {"generator": "imdb", "documents": 160},
    "labels": ["negative", "positive"],
    "max_tokens": 32,
}
STUDY = {
    "extensions": ["studies/conversion"],
    "experiment": {
        "seeds": [1],
        "precision": "fp32",
        "mechanisms": {"sdpa": {"kind": "sdpa"}, "favor-m16": {"kind": "favor", "nb_features": 16}},
        "backbones": {
            "small": {
                "kind": "encoder",
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "initializer_range": 0.2,
                "embedding_dropout": 0.0,
                "mlp_dropout": 0.0,
                "attention_output_dropout": 0.0,
            },
        },
        "tokenizers": {"words": {"source": "trained", "vocab_size": 300, "corpus": "texts"}},
        "datasets": {"texts": TEXTS},
        "stages": {
            "pretrain": {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {"texts": {}}},
            "imitate": {
                "start": "pretrain",
                "models": ["transferred"],
                "task": {"kind": "imitation", "teacher": "sdpa"},
                "recipe": RECIPE | {"evaluate_every": 8},
                "data": {"texts": {}},
            },
            "classify": {
                "start": "imitate",
                "task": {"kind": "sequence_classification"},
                "recipe": RECIPE | {"epochs": 2},
                "data": {"texts": {}},
            },
        },
        "models": {
            "sdpa": {"backbone": "small", "mechanism": "sdpa"},
            "transferred": {
                "backbone": "small",
                "mechanism": "sdpa",
                "changes": {"imitate": {"mechanism": "favor-m16"}},
            },
        },
    },
    "report": {
        "tables": {
            "recovery": {"kind": "history", "stage": "imitate", "column": "eval_unexplained_variance"},
            "distance": {"stage": "imitate", "columns": ["eval_unexplained_variance", "eval_document_cosine"]},
            "f1": {"stage": "classify", "columns": ["f1"]},
        },
        "figures": {"recovery": {"kind": "loss", "stage": "imitate", "column": "eval_unexplained_variance"}},
    },
    "execution": {
        "results": "results/transfer",
        "training": {"device": "cpu", "workers": 0},
        "job": {"gpu": 0, "cpus_per_task": 1, "mem_mb": 1000},
    },
}


@pytest.fixture(scope="module")
def finished(run_study):
    return run_study(STUDY)


def run(project, stage, model):
    return project.results / "runs" / stage / model / "texts/seed-1"


def mechanism(folder):
    return json.loads((folder / "model/config.json").read_text())["mechanism"]["kind"]


def test_error_while_states_are_learnt(finished):
    rows = pd.read_csv(run(finished, "imitate", "transferred") / "history.csv")
    assert rows["step"].is_monotonic_increasing
    assert len(rows) >= 4
    for column in ("eval_loss", "eval_unexplained_variance"):
        assert rows[column].iloc[-1] < rows[column].iloc[0] / 2
    assert rows["eval_document_cosine"].iloc[-1] > rows["eval_document_cosine"].iloc[0]


def test_teacher_of_the_student(finished):
    folder = run(finished, "imitate", "transferred")
    parents = read_record(folder).parents
    assert parents["teacher"] == parents["start"]
    assert parents["teacher"].path.endswith("pretrain/sdpa/texts/seed-1/model")
    assert (mechanism(folder), mechanism(run(finished, "pretrain", "sdpa"))) == ("favor", "sdpa")
    assert not run(finished, "pretrain", "transferred").exists(), "it shares the pretraining"


def test_start_of_the_next_stage(finished):
    places = ("imitate/transferred", "pretrain/sdpa")
    for model, place in zip(("transferred", "sdpa"), places, strict=True):
        start = read_record(run(finished, "classify", model)).parents["start"].path
        assert start.endswith(f"{place}/texts/seed-1/model")
    assert mechanism(run(finished, "classify", "transferred")) == "favor"


def test_tables_and_figures_of_the_recovery(finished):
    tables = finished.results / "tables"
    assert pd.read_csv(tables / "recovery.csv")["transferred"].is_monotonic_decreasing
    assert list(pd.read_csv(tables / "distance.csv")["model"]) == ["transferred"]
    assert (finished.results / "figures/recovery.svg").stat().st_size > 5_000


def test_stale_runs_after_a_new_setting(finished):
    assert finished.stale("transfer.yaml") == {}
    layers = {"experiment": {"stages": {"imitate": {"task": {"layers": "all"}}}}}
    after = finished.configure({"extends": "transfer.yaml"} | layers, "layers.yaml")
    assert finished.stale(after)["train"] == 2
