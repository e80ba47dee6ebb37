"""Trainings that end after some steps, or are evaluated after some: rows, rates, what is kept, what goes on."""

import pandas as pd
import pytest
from comparing import same
from datasets import load_from_disk

from lib.core.record import read_record
from lib.tokens.stored import load_tokens
from lib.training.run import train
from lib.training.trainer import Trainer
from studies.hate_speech.schedule import learning_rates

pytestmark = pytest.mark.extended

SPEED = ["seconds", "tokens_per_second", "peak_memory_mb"]


def history(folder):
    return pd.read_csv(folder / "history.csv")


def test_end_within_an_epoch(run_of, corpus, tmp_path):
    run = run_of("pretrain", recipe={"epochs": 3, "steps": 9, "min_lr_ratio": 0.1})
    train(run, tmp_path / "out")
    rows, record = history(tmp_path / "out"), read_record(tmp_path / "out")
    assert rows["epoch"].tolist() == [1, 1.5]
    assert rows["step"].tolist() == [6, 9]
    assert rows["learning_rate"].iloc[-1] == pytest.approx(learning_rates(run.recipe.model_dump(), 9)[-1])
    assert rows["eval_loss"].notna().all()
    assert (record.epochs, record.steps) == (1.5, 9)
    assert record.seconds_per_epoch == pytest.approx(record.seconds / 1.5)
    assert record.metrics["eval_loss"] == rows["eval_loss"].iloc[-1]
    every = sum(load_tokens(corpus / "tokens" / "train")["length"])
    assert every < record.tokens < 2 * every


def test_evaluations_within_epochs(run_of, corpus, tmp_path):
    """Every 4 steps of 15, where an epoch has 6; validation has the other class's label, so that scores fall."""
    swapped = tmp_path / "validation"
    load_from_disk(corpus / "tokens/validation").map(lambda row: {"label": 1 - row["label"]}).save_to_disk(swapped)
    recipe = {"epochs": 3, "steps": 15, "evaluate_every": 4, "keep": ["best", "last"], "warmup_ratio": 1.0}
    train(run_of("finetune", recipe=recipe, data={"validation": str(swapped)}), tmp_path / "out")
    out = tmp_path / "out"
    rows, record = history(out), read_record(out)
    assert rows["step"].tolist() == [4, 8, 12, 15]
    assert rows["epoch"].tolist() == pytest.approx([4 / 6, 8 / 6, 2, 2.5], abs=1e-6)
    assert rows[["train_loss", "eval_loss", "eval_f1_macro", *SPEED]].notna().all(axis=None)
    assert (rows["seconds"] * rows["tokens_per_second"]).sum() == pytest.approx(record.tokens)
    assert rows["learning_rate"].tolist() == pytest.approx([1e-3 * (step - 1) / 15 for step in rows["step"]])
    rows = rows.set_index("epoch")
    best = rows["eval_f1_macro"].idxmax()
    assert best != rows.index[-1], "this training shows nothing"
    assert record.metrics["best_epoch"] == best
    assert record.metrics["eval_f1_macro"] == pytest.approx(rows["eval_f1_macro"][best])
    assert rows["test_f1_macro"].dropna().to_dict() == {best: pytest.approx(record.metrics["test_f1_macro"])}
    assert not same(out / "model", out / "model" / "last")


def test_loss_of_a_row_since_the_row_before(run_of, tmp_path):
    """Nothing is random in this model, so evaluations in between change nothing; nor does how many documents fit."""
    backbone = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    train(run_of("pretrain", backbone=backbone), tmp_path / "epochs")
    train(run_of("pretrain", backbone=backbone, recipe={"evaluate_every": 4}), tmp_path / "steps")
    assert same(tmp_path / "epochs" / "model", tmp_path / "steps" / "model")
    epochs, steps = history(tmp_path / "epochs"), history(tmp_path / "steps")
    assert steps["step"].tolist() == [4, 8, 12]
    assert steps["train_loss"].mean() == pytest.approx(epochs["train_loss"].mean(), rel=1e-6)
    assert steps["eval_loss"].iloc[-1] == pytest.approx(epochs["eval_loss"].iloc[-1])


@pytest.mark.parametrize(
    ("recipe", "expected"), [({"steps": 9, "evaluate_every": 4}, {4: 1, 8: 2, 9: 3}), ({}, {6: 1, 12: 2})]
)
def test_rows_in_every_checkpoint(recipe, expected, run_of, tmp_path, monkeypatch):
    """A resume from a step that was evaluated would never write that row."""
    saved = {}
    save = Trainer.save

    def note(self):
        saved[self.progress.step] = len(self.history.rows)
        save(self)

    monkeypatch.setattr(Trainer, "save", note)
    train(run_of("pretrain", recipe=recipe, execution={"checkpoint_minutes": 1e-6}), tmp_path / "out")
    assert saved.keys() >= set(expected)
    assert saved == {step: max((n for at, n in expected.items() if at <= step), default=0) for step in saved}
    assert max(expected) == max(saved)
