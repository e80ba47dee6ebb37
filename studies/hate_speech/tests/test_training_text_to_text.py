"""Classification by writing, from a training to its record: both readings, adapters, interruptions."""

import pandas as pd
import pytest
import torch
from comparing import metrics_of, weights
from killing import assert_goes_on_exactly
from transformers import T5Config, T5ForConditionalGeneration

from lib.core.errors import ConfigError, RunError
from lib.core.record import read_record
from lib.training.evaluate import evaluate
from lib.training.run import train

pytestmark = pytest.mark.extended

SIZES = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
T5 = {"kind": "encoder_decoder", "architecture": {"model_type": "t5", **SIZES}}
TASK = {"kind": "text_to_text", "prefix": "fol bim ", "targets": ["bal", "kut kit"]}
RECIPE = {"epochs": 6, "learning_rate": 1e-2, "batch_size": 16}


@pytest.fixture(scope="module")
def writing(run_of):
    """Return settings of a run that learns to write."""

    def make(*, task=None, recipe=None, **changes):
        return run_of(
            "finetune", model="t5", backbone=T5, task=TASK | (task or {}), recipe=RECIPE | (recipe or {}), **changes
        )

    return make


@pytest.fixture(scope="module")
def trained(writing, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "out"
    train(writing(), out)
    return out


def test_writing_learnt(trained):
    record, history = read_record(trained), pd.read_csv(trained / "history.csv")
    assert record.parameters["total"] < 30_000
    assert record.parameters["head"] == 0
    assert record.metrics["test_f1_macro"] > 0.8
    best = history["eval_f1_macro"].idxmax()
    assert record.metrics["best_epoch"] == best + 1
    for name in ("f1_macro", "likelihood_f1_macro", "generation_f1_macro", "unparsed", "loss"):
        assert record.metrics[f"eval_{name}"] == pytest.approx(history[f"eval_{name}"][best])
    assert record.metrics["test_f1_macro"] == record.metrics["test_likelihood_f1_macro"]
    assert min(record.metrics[f"test_{name}_seconds"] for name in ("likelihood", "generation")) > 0
    # The loss of training is that of a token, too.
    assert history["eval_loss"].iloc[0] == pytest.approx(history["train_loss"].iloc[0], rel=2)


def test_predictions_of_what_is_written(trained):
    predictions = pd.read_parquet(trained / "predictions.parquet")
    assert len(predictions) == 80
    test = predictions[predictions["split"] == "test"]
    metrics = read_record(trained).metrics
    assert (test["prediction"] == test["label"]).mean() == pytest.approx(metrics["test_accuracy"])
    written = test["generated"].map({"bal": 0, "kut kit": 1})
    assert written.isna().sum() == metrics["test_unparsed"]
    assert written.notna().mean() > 0.9
    assert [row.argmax() for row in test["probabilities"]] == test["prediction"].tolist()


def as_it_is(run, folder, **task):
    values = run.model_dump(exclude={"recipe"})
    return type(run).model_validate(values | {"start": {"checkpoint": str(folder)}, "task": values["task"] | task})


@pytest.mark.parametrize("reading", ["likelihood", "generation"])
def test_reading_of_what_was_trained(reading, writing, trained, tmp_path):
    evaluate(as_it_is(writing(), trained / "model", reading=reading), tmp_path / "out")
    found, before = metrics_of(tmp_path / "out"), metrics_of(trained)
    assert found["test_f1_macro"] == before[f"test_{reading}_f1_macro"]
    both = [name for name in found if name.startswith(("test_likelihood", "test_generation"))]
    assert {name: found[name] for name in both} == {name: before[name] for name in both}


def test_texts_of_no_class(writing, corpus, tmp_path):
    """Of a published model that has learnt nothing."""
    torch.manual_seed(0)
    T5ForConditionalGeneration(T5Config(**SIZES, vocab_size=400, decoder_start_token_id=0)).save_pretrained(
        tmp_path / "published"
    )
    evaluate(as_it_is(writing(), tmp_path / "published", reading="generation"), tmp_path / "out")
    metrics, predictions = read_record(tmp_path / "out").metrics, pd.read_parquet(tmp_path / "out/predictions.parquet")
    test = predictions[predictions["split"] == "test"]
    assert (test["prediction"] == -1).sum() == metrics["test_unparsed"] == 40
    assert metrics["test_accuracy"] == metrics["test_f1_macro"] == 0
    assert metrics["test_likelihood_f1_macro"] > 0


def test_run_killed(writing, tmp_path):
    run = writing(recipe={"epochs": 2}, execution={"checkpoint_minutes": 1e-6})
    assert_goes_on_exactly(run, tmp_path)


def test_adapters_alone_train(writing, trained, tmp_path):
    lora = {"r": 2, "alpha": 4, "targets": ["q", "k"]}
    start = {"checkpoint": str(trained / "model")}
    train(writing(recipe={"epochs": 2, "lora": lora}, start=start), tmp_path / "out")
    before, after = weights(trained / "model"), weights(tmp_path / "out" / "model")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.endswith((".q.weight", ".k.weight"))}
    assert read_record(tmp_path / "out").parameters["trainable"] == 3 * 2 * 2 * (32 + 32)  # 3 blocks of attention
    run = writing(recipe={"epochs": 1, "lora": lora | {"targets": ["query"]}}, start=start)
    with pytest.raises(RunError, match="has no linear layer query for targets, but k, o, q, v, wi, wo"):
        train(run, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_targets_refused_before_training(writing, tmp_path):
    with pytest.raises(ConfigError, match="task.targets:.*'WOW', only"):
        train(writing(task={"targets": ["bal", "WOW"]}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
