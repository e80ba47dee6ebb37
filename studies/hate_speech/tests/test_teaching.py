"""Distillation: a student learns from its documents' labels and from the scores of a trained model."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from lib.backbones.heads.model import cross_entropy
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training.run import train
from studies.hate_speech.taught import distillation

pytestmark = pytest.mark.extended

ROOT = Path(__file__).resolve().parents[3]
RECIPE = {"epochs": 2, "learning_rate": 5e-3, "batch_size": 16}


@pytest.fixture(scope="module")
def teacher(settings, tmp_path_factory):
    """Settings and folder of a finished fine-tuning."""
    folder = tmp_path_factory.mktemp("teacher") / "run"
    values = settings("finetune", model="teacher", recipe=RECIPE)
    train(RunSettings.model_validate(values), folder)
    return values, folder


@pytest.fixture(scope="module")
def taught(teacher, tmp_path_factory):
    """The training tokens with the teacher's scores, made by the program."""
    values, folder = teacher
    out = tmp_path_factory.mktemp("taught") / "train"
    options = {
        "config": folder / "config.yaml", "model": folder / "model", "tokenizer": values["tokenizer"],
        "documents": values["data"]["train"], "tokens": values["data"]["train"], "out": out,
    }  # fmt: skip
    arguments = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    runpy.run_path(str(ROOT / "studies/hate_speech/scripts/teach.py"))["main"](arguments)
    return out


def student(settings, taught, **changes):
    values = settings("finetune", model="student", recipe=RECIPE, backbone={"num_hidden_layers": 1})
    task = {"kind": "distillation", "teacher": "teacher", "weight": 1.0, "temperature": 1.0}
    return values | {"task": task | changes, "data": values["data"] | {"train": str(taught)}}


def test_scores_of_the_teacher(teacher, taught):
    values, folder = teacher
    tokens, before = load_tokens(taught), load_tokens(values["data"]["train"])
    assert (tokens["id"][:], tokens["input_ids"][:]) == (before["id"][:], before["input_ids"][:])
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder / "model").eval()
    for row in tokens.select(range(5)):
        with torch.no_grad():
            expected = model(torch.tensor([row["input_ids"]])).logits[0]
        assert row["teacher_logits"] == pytest.approx(expected.tolist(), abs=1e-5)


def test_student_of_the_teacher_alone(settings, teacher, taught, tmp_path):
    """With all labels of training turned round, it still tells the classes as the teacher does."""
    tokens = load_tokens(taught)
    turned = tokens.remove_columns("label").add_column("label", [1 - label for label in tokens["label"]])
    turned.save_to_disk(tmp_path / "turned")
    train(RunSettings.model_validate(student(settings, tmp_path / "turned")), tmp_path / "student")
    mine, theirs = (pd.read_parquet(folder / "predictions.parquet") for folder in (tmp_path / "student", teacher[1]))
    merged = mine.merge(theirs, on="id")
    assert (merged["prediction_x"] == merged["prediction_y"]).mean() > 0.8


def test_teacher_without_weight(settings, taught, tmp_path):
    train(RunSettings.model_validate(student(settings, taught, weight=0.0)), tmp_path / "taught")
    plain = student(settings, taught) | {"task": {"kind": "sequence_classification"}}
    train(RunSettings.model_validate(plain), tmp_path / "plain")
    mine, theirs = (pd.read_parquet(tmp_path / name / "predictions.parquet") for name in ("taught", "plain"))
    pd.testing.assert_frame_equal(mine, theirs)


def test_gradients_of_a_split_batch(settings, taught, tmp_path):
    for name, tokens in (("whole", 4096), ("split", 64)):
        values = student(settings, taught, weight=0.5, temperature=3.0)
        values["recipe"] = values["recipe"] | {"epochs": 1}
        values["execution"] = values["execution"] | {"micro_batch_tokens": tokens}
        values["backbone"] = values["backbone"] | {
            "embedding_dropout": 0.0,
            "mlp_dropout": 0.0,
            "attention_output_dropout": 0.0,
        }
        values["task"] = values["task"] | {"classifier_dropout": 0.0}
        train(RunSettings.model_validate(values), tmp_path / name)
    whole, split = (pd.read_parquet(tmp_path / name / "predictions.parquet") for name in ("whole", "split"))
    assert np.stack(whole["probabilities"]) == pytest.approx(np.stack(split["probabilities"]), abs=1e-4)


def test_loss_with_a_temperature():
    generator = torch.Generator().manual_seed(0)
    logits, scores = torch.randn(2, 6, 3, generator=generator)
    student_, teacher_ = (torch.softmax(each / 2.5, dim=-1) for each in (logits, scores))
    expected = 2.5**2 * (teacher_ * (teacher_.log() - student_.log())).sum() / 6
    assert distillation(logits, scores, 2.5).item() == pytest.approx(expected.item(), rel=1e-5)
    assert distillation(scores, scores, 2.5).item() == pytest.approx(0, abs=1e-6)
    halves = sum(distillation(logits[part], scores[part], 2.5, 6) for part in (slice(0, 2), slice(2, 6)))
    assert halves.item() == pytest.approx(expected.item(), rel=1e-5)
    # Of a teacher that is certain, at temperature 1, what remains is the cross-entropy with its classes.
    certain = 1000 * torch.eye(3)[[0, 2, 1, 1, 0, 2]]
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    assert distillation(logits, certain, 1.0).item() == pytest.approx(cross_entropy(logits, labels).item(), rel=1e-5)
