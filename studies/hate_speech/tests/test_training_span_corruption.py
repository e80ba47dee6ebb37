"""Span corruption, from a training to its record, and fine-tuning that starts from it."""

import runpy
from pathlib import Path

import pandas as pd
import pytest
import torch
from comparing import weights
from killing import assert_goes_on_exactly

from lib.core.record import read_record
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import add_sentinels
from lib.training.predictor import assemble
from lib.training.run import train

pytestmark = pytest.mark.extended

PARTS = runpy.run_path(str(Path(__file__).resolve().parents[3] / "studies/hate_speech/scripts/t5_parts.py"))
ANSWERS = {"kind": "text_to_text", "prefix": "fol bim ", "targets": ["bal", "kut kit"]}
SIZES = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.1}
T5 = {"kind": "encoder_decoder", "architecture": {"model_type": "t5", **SIZES}}
TASK = {"kind": "span_corruption"}
RECIPE = {"epochs": 2, "learning_rate": 1e-2, "batch_size": 16}


@pytest.fixture(scope="module")
def reading(run_of, corpus, tmp_path_factory):
    """Return settings of a run that learns to write what was dropped."""
    folder = tmp_path_factory.mktemp("with") / "tokenizer"
    TextTokenizer.load(corpus / "tokenizer").backend.save_pretrained(folder)
    add_sentinels(folder, 4)

    def make(stage="pretrain", **changes):
        return run_of(
            stage, **{"model": "t5", "backbone": T5, "task": TASK, "recipe": RECIPE, "tokenizer": str(folder)} | changes
        )

    return make


@pytest.fixture(scope="module")
def pretrained(reading, tmp_path_factory):
    out = tmp_path_factory.mktemp("pretrained") / "out"
    train(reading(recipe=RECIPE | {"epochs": 12}), out)
    return out


def test_dropped_spans_learnt(pretrained):
    record, history = read_record(pretrained), pd.read_csv(pretrained / "history.csv")
    assert (record.task, record.stage) == ("span_corruption", "pretrain")
    assert record.parameters["head"] == 0
    assert history["eval_loss"].iloc[-1] < 0.8 * history["eval_loss"].iloc[0]
    assert record.metrics["eval_loss"] == pytest.approx(history["eval_loss"].iloc[-1])
    assert not (pretrained / "predictions.parquet").exists()


def test_run_killed(reading, tmp_path):
    run = reading("tapt", execution={"device": "cpu", "checkpoint_minutes": 1e-6})
    assert_goes_on_exactly(run, tmp_path)


def test_adaptation_and_answers(reading, pretrained, tmp_path):
    """All weights go along, those of the sentinel tokens too."""
    start = {"run": str(pretrained), "checkpoint": str(pretrained / "model")}
    train(reading("tapt", start=start, recipe=RECIPE | {"epochs": 1}), tmp_path / "adapted")
    before = pd.read_csv(pretrained / "history.csv")["train_loss"]
    assert pd.read_csv(tmp_path / "adapted/history.csv")["train_loss"][0] < before[0]
    start = {"run": str(tmp_path / "adapted"), "checkpoint": str(tmp_path / "adapted/model")}
    still = RECIPE | {"epochs": 1, "learning_rate": 1e-9}
    train(reading("finetune", task=ANSWERS, start=start, recipe=still), tmp_path / "still")
    taken, given = weights(tmp_path / "still/model"), weights(tmp_path / "adapted/model")
    assert taken.keys() == given.keys()
    assert all(torch.allclose(weight, taken[name], atol=1e-6) for name, weight in given.items())
    train(reading("finetune", task=ANSWERS, start=start, recipe=RECIPE | {"epochs": 6}), tmp_path / "answers")
    assert read_record(tmp_path / "answers").metrics["test_f1_macro"] > 0.8


def test_parts_of_a_pretraining(reading, pretrained, tmp_path):
    run = reading("finetune", task=ANSWERS, recipe=RECIPE | {"epochs": 6})
    train(run, tmp_path / "drawn")
    folders = {"pretrained": pretrained, "finetuned": tmp_path / "drawn", "out": tmp_path / "parts"}
    options = [text for name, folder in folders.items() for text in (f"--{name}", str(folder))]
    PARTS["main"]([*options, "--taken", "nothing", "encoder blocks", "--seeds", str(run.seed)])
    before, after, nothing, _ = pd.read_csv(tmp_path / "parts" / "parts.csv").to_dict("records")
    assert nothing["test_f1_macro"] == pytest.approx(read_record(tmp_path / "drawn").metrics["test_f1_macro"], rel=1e-5)
    assert nothing["loss"] == pytest.approx(read_record(tmp_path / "drawn").metrics["eval_loss"], rel=1e-4)
    assert nothing["loss_other"] > 2 * nothing["loss"], "a model that reads notices another text"
    theirs, mine = weights(pretrained / "model"), weights(tmp_path / "parts/encoder-blocks/seed-7/start")
    taken = {name for name, weight in mine.items() if torch.equal(weight, theirs[name])}
    assert taken == {name for name in mine if PARTS["part_of"](name) == "encoder"}
    assert {PARTS["part_of"](name) for name in mine} == {"embeddings", "encoder", "decoder"}
    assert after["loss"] < before["loss"]


def test_decoder_that_ignores_texts(reading, tmp_path):
    run = reading()
    model = assemble(run).model
    torch.nn.init.constant_(model.get_input_embeddings().weight, 0.1)
    model.save_pretrained(tmp_path)
    found = PARTS["measured_parts"](run, tmp_path)
    assert found["loss_other"] == pytest.approx(found["loss"], rel=1e-6)
    assert found["common_states"] == pytest.approx(1, rel=1e-6)
    assert found["common_attention"] == pytest.approx(1, rel=1e-6)
    assert PARTS["measured_parts"](run, None)["common_states"] < 0.9
