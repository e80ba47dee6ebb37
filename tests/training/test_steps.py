"""Trainings that end after some steps, or are evaluated after some: rows, rates, what is kept, what goes on."""

import pandas as pd
import pytest
import torch
from comparing import same
from datasets import load_from_disk
from killing import assert_trains_no_further, attempt, killed_at

from lib.core.errors import RunError
from lib.core.record import read_record
from lib.study.run import Start
from lib.tokens.stored import load_tokens
from lib.training.run import train
from lib.training.trainer import Trainer
from studies.hate_speech.schedule import learning_rates

STEPS_AN_EPOCH = 192 // 32
SPEED = ["seconds", "tokens_per_second", "peak_memory_mb"]
CONSTANT = {"min_lr_ratio": 1.0, "warmup_ratio": 0.0}


def history(folder):
    return pd.read_csv(folder / "history.csv")


def test_a_training_ends_within_an_epoch_and_its_schedule_with_it(run_of, corpus, tmp_path):
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


def test_epochs_end_a_training_before_its_steps_do(run_of, tmp_path):
    train(run_of("pretrain", recipe={"epochs": 2, "steps": 13}), tmp_path / "out")
    train(run_of("pretrain", recipe={"epochs": 2}), tmp_path / "plain")
    assert same(tmp_path / "out" / "model", tmp_path / "plain" / "model")
    assert history(tmp_path / "out")["epoch"].tolist() == [1, 2]
    assert '"epochs": 2,' in (tmp_path / "out" / "run.json").read_text()


@pytest.fixture(scope="module")
def swapped(corpus, tmp_path_factory):
    """Validation with the other class's label, on which a classifier becomes worse while it trains."""
    folder = tmp_path_factory.mktemp("swapped") / "validation"
    load_from_disk(corpus / "tokens/validation").map(lambda row: {"label": 1 - row["label"]}).save_to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def evaluated(run_of, swapped, tmp_path_factory):
    """A run with an evaluation every 4 steps of 16, where an epoch has 6, and its folder."""
    recipe = {"epochs": 3, "steps": 15, "evaluate_every": 4, "keep": ["best", "last"], "warmup_ratio": 1.0}
    run = run_of("finetune", recipe=recipe, data={"validation": swapped})
    out = tmp_path_factory.mktemp("evaluated") / "out"
    train(run, out)
    return run, out


def test_every_evaluation_has_a_row_and_so_has_the_last_step(evaluated, corpus):
    _, out = evaluated
    rows, record = history(out), read_record(out)
    assert rows["step"].tolist() == [4, 8, 12, 15]
    assert rows["epoch"].tolist() == pytest.approx([4 / 6, 8 / 6, 2, 2.5], abs=1e-6)
    assert rows[["train_loss", "eval_loss", "eval_f1_macro", *SPEED]].notna().all(axis=None)
    assert (rows["seconds"] * rows["tokens_per_second"]).sum() == pytest.approx(record.tokens)
    assert rows["learning_rate"].tolist() == pytest.approx([1e-3 * (step - 1) / 15 for step in rows["step"]])
    assert record.seconds == pytest.approx(rows["seconds"].sum())


def test_the_best_evaluation_is_kept_and_tested(evaluated):
    _, out = evaluated
    rows, record = history(out).set_index("epoch"), read_record(out)
    best = rows["eval_f1_macro"].idxmax()
    assert best != rows.index[-1], "this training shows nothing"
    assert record.metrics["best_epoch"] == best
    assert record.metrics["eval_f1_macro"] == pytest.approx(rows["eval_f1_macro"][best])
    assert rows["test_f1_macro"].dropna().to_dict() == {best: pytest.approx(record.metrics["test_f1_macro"])}
    assert not same(out / "model", out / "model" / "last")


def test_the_loss_of_a_row_is_the_mean_since_the_row_before(run_of, tmp_path):
    """Nothing is random in this model, so evaluations in between change nothing."""
    backbone = dict.fromkeys(("embedding_dropout", "mlp_dropout", "attention_output_dropout"), 0.0)
    train(run_of("pretrain", backbone=backbone), tmp_path / "epochs")
    train(run_of("pretrain", backbone=backbone, recipe={"evaluate_every": 4}), tmp_path / "steps")
    assert same(tmp_path / "epochs" / "model", tmp_path / "steps" / "model")
    epochs, steps = history(tmp_path / "epochs"), history(tmp_path / "steps")
    assert steps["step"].tolist() == [4, 8, 12]
    assert steps["train_loss"].mean() == pytest.approx(epochs["train_loss"].mean(), rel=1e-6)
    assert steps["eval_loss"].iloc[-1] == pytest.approx(epochs["eval_loss"].iloc[-1])


def test_how_documents_are_held_at_a_time_moves_no_row(run_of, tmp_path):
    """192 documents in batches of 40: the last one is smaller, and so is its last micro-batch of 16."""
    found = []
    for tokens in (10_000, 20 * 32, 8 * 32):
        run = run_of(
            "pretrain",
            recipe={"batch_size": 40, "steps": 7, "evaluate_every": 3},
            execution={"device": "cpu", "micro_batch_tokens": tokens},
        )
        train(run, tmp_path / str(tokens))
        found.append(history(tmp_path / str(tokens))["epoch"].tolist())
    assert found == [[0.6, 1.2, 1.4]] * 3


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [({"steps": 9}, {6: 1, 9: 2}), ({"steps": 9, "evaluate_every": 4}, {4: 1, 8: 2, 9: 3}), ({}, {6: 1, 12: 2})],
)
def test_every_checkpoint_holds_the_rows_before_it(recipe, expected, run_of, tmp_path, monkeypatch):
    """A resume from a step that was evaluated would never write that row."""
    saved = {}
    save = Trainer.save

    def note(self):
        saved[self.progress.step] = len(self.history.rows)
        save(self)

    monkeypatch.setattr(Trainer, "save", note)
    train(run_of("pretrain", recipe=recipe, execution={"checkpoint_minutes": 1e-6}), tmp_path / "out")
    last = max(expected)
    assert saved.keys() >= set(expected)
    assert saved == {step: max((n for at, n in expected.items() if at <= step), default=0) for step in saved}
    assert last == max(saved)


@pytest.mark.parametrize("keep", [["best"], ["last", "state"]])
def test_a_run_killed_after_its_last_step_trains_no_further(keep, run_of, tmp_path):
    assert_trains_no_further(run_of("finetune", recipe={"steps": 9, "keep": keep}), tmp_path)


def test_a_state_within_an_epoch_goes_on_with_the_intervals_of_the_new_run(run_of, tmp_path):
    def settings(**recipe):
        return run_of("finetune", recipe=CONSTANT | {"epochs": 3, "keep": ["last", "state"]} | recipe)

    train(settings(steps=8), tmp_path / "half")
    start = Start(run="half", checkpoint=str(tmp_path / "half" / "model" / "state"), load_only_model_state=False)
    further = settings(steps=15, evaluate_every=5).model_copy(update={"start": start})
    train(further, tmp_path / "out")
    assert history(tmp_path / "out")["step"].tolist() == [6, 8, 10, 15]
    with pytest.raises(RunError, match=r"was trained for .* 8 steps, which leaves nothing to do"):
        train(settings(steps=8).model_copy(update={"start": start}), tmp_path / "more")


def tensors(state):
    """Return the tensors in an optimiser's state of a weight, however deep."""
    deep = [tensor for value in state.values() if isinstance(value, dict) for tensor in tensors(value)]
    return [*deep, *(value for value in state.values() if isinstance(value, torch.Tensor))]


def test_an_optimiser_of_8_bits_goes_on_where_it_was_killed(run_of, tmp_path):
    pytest.importorskip("bitsandbytes")
    wide = {"hidden_size": 64, "intermediate_size": 128}  # smaller weights have moments of 32 bits anyway
    run = run_of("pretrain", backbone=wide, recipe={"optimizer": "adamw_8bit"}, execution={"checkpoint_minutes": 1e-6})
    with killed_at(9):
        train(run, tmp_path / "out")
    states = torch.load(attempt(tmp_path / "out") / "checkpoint-9" / "optimizer.pt", weights_only=True)["state"]
    moments = [tensor for state in states.values() for tensor in tensors(state) if tensor.numel() >= 4096]
    assert {moment.dtype for moment in moments} == {torch.uint8, torch.float32}
    assert all(moment.shape[0] > 128 for moment in moments if moment.dtype == torch.float32)  # embeddings
    train(run, tmp_path / "out")
    train(run, tmp_path / "whole")
    assert same(tmp_path / "out" / "model", tmp_path / "whole" / "model")
