"""TensorBoard and Weights & Biases, offline, are told what the CSV and the record hold, beside the results."""

import pandas as pd
import pytest

from lib.core.record import read_record
from lib.training.run import train

pytestmark = pytest.mark.extended
accumulating = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
pytest.importorskip("wandb")

PER_EPOCH = {
    "train/loss": "train_loss",
    "train/seconds": "seconds",
    "train/tokens_per_second": "tokens_per_second",
    "train/peak_memory_mb": "peak_memory_mb",
    "train/learning_rate": "learning_rate",
    "train/learning_rate_head": "learning_rate_head",
    "eval/f1_macro": "eval_f1_macro",
}


@pytest.fixture
def offline(monkeypatch):
    """Weights & Biases without a network, told nothing by the environment."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for name in ("WANDB_DIR", "WANDB_PROJECT", "TENSORBOARD_LOGGING_DIR"):
        monkeypatch.setenv(name, "")  # so that what the run sets is undone
        monkeypatch.delenv(name)


def final_figures(folder):
    record = read_record(folder)
    return {
        "train/seconds_per_epoch": record.seconds_per_epoch,
        "train/mean_tokens_per_second": record.tokens_per_second,
        "train/peak_memory_mb": record.peak_memory_mb,
        "test/f1_macro": record.metrics["test_f1_macro"],
        "test/accuracy": record.metrics["test_accuracy"],
        "test/loss": record.metrics["test_loss"],
    }


def test_figures_told_to_trackers(run_of, tmp_path, offline):
    tracked = tmp_path / "out"
    execution = {"report_to": ["tensorboard", "wandb"]}
    train(run_of("finetune", recipe={"epochs": 3, "head_lr_multiplier": 2.0}, execution=execution), tracked)
    assert list(tracked.glob("wandb/offline-run-*/run-*.wandb"))
    events = accumulating.EventAccumulator(str(tracked / "tensorboard")).Reload()
    history = pd.read_csv(tracked / "history.csv")
    for tag, column in PER_EPOCH.items():
        found = {event.step: event.value for event in events.Scalars(tag)[: len(history)]}
        assert found == pytest.approx(dict(zip(history["step"], history[column], strict=True)), rel=1e-6), tag
    for tag, value in final_figures(tracked).items():
        last = events.Scalars(tag)[-1]
        assert (last.step, last.value) == (history["step"].iloc[-1], pytest.approx(value, rel=1e-6)), tag
