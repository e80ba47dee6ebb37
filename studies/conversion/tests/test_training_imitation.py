"""Attention transfer: a model with FAVOR+ learns the states of the same model with exact attention."""

import logging
import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from comparing import assert_alike, weights
from killing import killed_at
from transformers import AutoModel

from lib.core.record import digest_of, read_record
from lib.study.run import RunSettings
from lib.tokens.stored import load_tokens
from lib.training.run import train

pytestmark = pytest.mark.extended

SDPA = {"kind": "sdpa"}
DROPOUTS = {"embedding_dropout": 0.0, "mlp_dropout": 0.0, "attention_output_dropout": 0.0}
RECIPE = {"epochs": 8, "learning_rate": 5e-3, "evaluate_every": 6}
SCORES = ["eval_loss", "eval_unexplained_variance", "eval_token_cosine", "eval_document_cosine"]


@pytest.fixture
def train_by(tmp_path):
    """Train a run of these settings, and return its folder."""

    def run(values, name="out"):
        train(RunSettings.model_validate(values), tmp_path / name)
        return tmp_path / name

    return run


@pytest.fixture(scope="module")
def imitated(imitation, tmp_path_factory):
    """Settings and folder of an imitation without dropout."""
    values = imitation(backbone=DROPOUTS, recipe=RECIPE)
    folder = tmp_path_factory.mktemp("imitated") / "out"
    train(RunSettings.model_validate(values), folder)
    return values, folder


def history(folder):
    return pd.read_csv(folder / "history.csv")


def test_error_from_evaluation_to_evaluation(imitated):
    _, folder = imitated
    rows = history(folder)
    assert rows["step"].tolist() == [*range(6, 49, 6)]
    first, last = rows.iloc[0], rows.iloc[-1]
    assert last["eval_loss"] < first["eval_loss"] / 2
    assert last["eval_unexplained_variance"] < first["eval_unexplained_variance"] / 2 < 0.5
    assert first["eval_token_cosine"] < last["eval_token_cosine"] < 1
    assert first["eval_document_cosine"] < last["eval_document_cosine"] < 1
    assert rows[SCORES].notna().all(axis=None)


def test_scores_by_the_two_models_on_the_disk(imitated):
    """By plain arithmetic, document by document, without padding."""
    values, folder = imitated
    student, teacher = (
        AutoModel.from_pretrained(place).eval() for place in (folder / "model", values["task"]["teacher_weights"])
    )
    assert (student.config.mechanism["kind"], teacher.config.mechanism["kind"]) == ("favor", "sdpa")
    states, means = [], []
    for ids in load_tokens(values["data"]["validation"])["input_ids"]:
        with torch.no_grad():
            pair = [model(torch.tensor([ids])).last_hidden_state[0].double() for model in (student, teacher)]
        states.append(torch.stack(pair))
        means.append(torch.stack(pair).mean(dim=1))
    found, expected = torch.cat(states, dim=1)
    error = (found - expected).square()
    metrics = read_record(folder).metrics
    assert metrics["eval_loss"] == pytest.approx(error.mean().item(), rel=1e-4)
    variance = (expected - expected.mean(dim=0)).square().sum()
    assert metrics["eval_unexplained_variance"] == pytest.approx((error.sum() / variance).item(), rel=1e-4)
    cosines = torch.nn.functional.cosine_similarity(found, expected, dim=-1)
    assert metrics["eval_token_cosine"] == pytest.approx(cosines.mean().item(), rel=1e-5)
    cosines = torch.nn.functional.cosine_similarity(*torch.stack(means, dim=1), dim=-1)
    assert metrics["eval_document_cosine"] == pytest.approx(cosines.mean().item(), rel=1e-5)


def test_teacher_in_the_record(imitated):
    values, folder = imitated
    record, teacher = read_record(folder), values["task"]["teacher_weights"]
    assert record.parents["teacher"].path == teacher
    assert record.parents["teacher"].digest == record.parents["start"].digest
    assert record.parameters["head"] == 0
    names = [name for name in weights(folder / "model") if ".mechanism." not in name]
    assert sorted(names) == sorted(name for name in weights(Path(teacher)) if name.startswith("encoder."))


def test_student_with_the_mechanism_of_its_teacher(imitation, train_by):
    """Before the first step that moves it: a warm-up begins at 0, so that one step alone scores a model as it is."""
    folder = train_by(imitation(backbone=DROPOUTS | {"mechanism": SDPA}, recipe={"epochs": 1, "steps": 1}))
    metrics = read_record(folder).metrics
    assert metrics["train_loss"] < 1e-10
    assert metrics["eval_unexplained_variance"] < 1e-10
    assert metrics["eval_token_cosine"] == pytest.approx(1)
    swapped = read_record(train_by(imitation(backbone=DROPOUTS, recipe={"epochs": 1, "steps": 1}), "swapped")).metrics
    assert swapped["train_loss"] > 0.1
    assert swapped["eval_unexplained_variance"] > 0.1


@pytest.mark.parametrize(
    ("task", "precision"), [({"layers": "last"}, "bf16"), ({"layers": "all"}, "fp32"), ({"match": "weights"}, "fp32")]
)
def test_killed_imitation(imitation, task, precision, tmp_path, caplog):
    """With dropout, whose draws the teacher must not disturb."""
    backbone = {"mechanism": HEDGEHOG} if "match" in task else {}
    often = {"checkpoint_minutes": 1e-6}
    values = imitation(task=task, precision=precision, execution=often, backbone=backbone)
    run = RunSettings.model_validate(values)
    digest = digest_of(Path(values["task"]["teacher_weights"]))
    train(run, tmp_path / "whole")
    with killed_at(9):
        train(run, tmp_path / "out")
    with caplog.at_level(logging.INFO):
        train(run, tmp_path / "out")
    assert "checkpoint-9" in next(line for line in caplog.messages if line.startswith("resuming from"))
    assert_alike(tmp_path / "whole", tmp_path / "out")
    assert math.isfinite(read_record(tmp_path / "out").metrics["eval_loss"])
    assert digest_of(Path(values["task"]["teacher_weights"])) == digest


HEDGEHOG = {"kind": "hedgehog"}
LOLCATS = {"kind": "lolcats", "block_size": 4, "window_blocks": 1}


@pytest.mark.parametrize(("mechanism", "match"), [(HEDGEHOG, "outputs"), (LOLCATS, "weights")])
def test_attention_learnt_by_mechanisms_alone(mechanism, match, imitation, train_by):
    recipe = RECIPE | {"learning_rate": 2e-2}
    values = imitation(task={"match": match}, backbone=DROPOUTS | {"mechanism": mechanism}, recipe=recipe)
    folder = train_by(values)
    first, last = history(folder).iloc[0], history(folder).iloc[-1]
    assert last["eval_loss"] < first["eval_loss"]
    assert last["eval_unexplained_variance"] < first["eval_unexplained_variance"]
    found, teacher = weights(folder / "model"), weights(Path(values["task"]["teacher_weights"]))
    shared = {name for name in found if ".mechanism." not in name}
    assert shared
    assert all(torch.equal(found[name], teacher[name]) for name in shared)
    maps = {name: tensor for name, tensor in found.items() if name.endswith(".matrix")}
    assert len(maps) == 4
    assert not any(torch.equal(tensor, torch.eye(tensor.shape[-1]).expand_as(tensor)) for tensor in maps.values())


def test_adapters_after_learnt_attention(imitation, settings, train_by):
    """The two steps of LoLCATs: first the mechanisms alone, then adapters in the layers around them."""
    backbone = DROPOUTS | {"mechanism": LOLCATS}
    values = imitation(task={"match": "outputs"}, backbone=backbone, recipe={"epochs": 1, "learning_rate": 1e-2})
    first = train_by(values)
    later = train_by(
        settings(
            "finetune",
            backbone=values["backbone"],
            start={"run": str(first), "checkpoint": str(first / "model")},
            recipe={"epochs": 1, "learning_rate": 1e-2, "lora": {"r": 4}},
        ),
        "later",
    )
    before, after = weights(first / "model"), weights(later / "model")
    mechanisms = {name for name in before if ".mechanism." in name}
    assert len(mechanisms) == 6
    assert all(torch.equal(before[name], after[name]) for name in mechanisms)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in moved} >= {"query", "key", "value"}
    assert read_record(later).parameters["trainable"] < read_record(later).parameters["total"] / 2
