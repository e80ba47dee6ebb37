"""TensorBoard and Weights & Biases, offline, are told what the CSV and the record hold, beside the results."""

import json

import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

from lib.core.record import read_record
from lib.training.run import train

PER_EPOCH = {
    "train/loss": "train_loss",
    "train/seconds": "seconds",
    "train/tokens_per_second": "tokens_per_second",
    "train/peak_memory_mb": "peak_memory_mb",
    "train/learning_rate": "learning_rate",
    "train/learning_rate_head": "learning_rate_head",
    "eval/f1_macro": "eval_f1_macro",
}


@pytest.fixture(scope="module")
def offline():
    """Weights & Biases without a network, told nothing by the environment."""
    with pytest.MonkeyPatch.context() as context:
        context.setenv("WANDB_MODE", "offline")
        context.setenv("WANDB_SILENT", "true")
        for name in ("WANDB_DIR", "WANDB_PROJECT", "TENSORBOARD_LOGGING_DIR"):
            context.setenv(name, "")  # so that what the run sets is undone
            context.delenv(name)
        yield


@pytest.fixture(scope="module")
def tracked(run_of, tmp_path_factory, offline):
    """The folder of a fine-tuning with both trackers; one for all, since a process asks its environment only once."""
    folder = tmp_path_factory.mktemp("tracked")
    run = run_of(
        "finetune",
        recipe={"epochs": 3, "head_lr_multiplier": 2.0},
        execution={"report_to": ["tensorboard", "wandb"], "wandb_project": "reading-room"},
    )
    train(run, folder / "out")
    return folder / "out"


def wandb_records(log):
    """Return the records of an offline run: blocks of 32 KiB with pieces of records, after a header of 7 bytes."""
    data, place, record, records = log.read_bytes(), 7, b"", []
    while place + 7 <= len(data):
        room = 2**15 - place % 2**15
        if room < 7:
            place += room
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        record += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            records.append(wandb_internal_pb2.Record.FromString(record))
            record = b""
    return records


def wandb_rows(log):
    """Return what was logged, a mapping per call."""
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in wandb_records(log)
        if record.WhichOneof("record_type") == "history"
    ]


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


def test_tensorboard_is_told_all(tracked):
    events = EventAccumulator(str(tracked / "tensorboard")).Reload()
    history = pd.read_csv(tracked / "history.csv")
    for tag, column in PER_EPOCH.items():
        found = {event.step: event.value for event in events.Scalars(tag)[: len(history)]}
        assert found == pytest.approx(dict(zip(history["step"], history[column], strict=True)), rel=1e-6), tag
    for tag, value in final_figures(tracked).items():
        last = events.Scalars(tag)[-1]
        assert (last.step, last.value) == (history["step"].iloc[-1], pytest.approx(value, rel=1e-6)), tag


def test_wandb_is_told_all(tracked):
    (log,) = (tracked / "wandb").glob("offline-run-*/run-*.wandb")
    rows, history = wandb_rows(log), pd.read_csv(tracked / "history.csv")
    for key, column in PER_EPOCH.items():
        found = [(row["train/global_step"], row[key]) for row in rows if key in row and "train/global_step" in row]
        expected = list(zip(history["step"], history[column], strict=True))
        for pair, wanted in zip(found[: len(history)], expected, strict=True):
            assert pair == pytest.approx(wanted), key
    for key, value in final_figures(tracked).items():
        assert next(row[key] for row in reversed(rows) if key in row) == pytest.approx(value), key


def test_wandb_knows_the_run_by_name(tracked):
    (log,) = (tracked / "wandb").glob("offline-run-*/run-*.wandb")
    (run,) = [record.run for record in wandb_records(log) if record.WhichOneof("record_type") == "run"]
    assert (run.project, run.display_name) == ("reading-room", "finetune/sdpa/toy/seed-7")


def test_a_stage_without_a_test_reports_its_speed(run_of, tmp_path, offline):
    run = run_of("pretrain", execution={"report_to": ["tensorboard"]})
    train(run, tmp_path / "out")
    events = EventAccumulator(str(tmp_path / "out" / "tensorboard")).Reload()
    assert {"train/seconds_per_epoch", "train/mean_tokens_per_second", "eval/perplexity"} <= set(
        events.Tags()["scalars"]
    )
    assert not [tag for tag in events.Tags()["scalars"] if tag.startswith("test/")]
    assert not (tmp_path / "out" / "wandb").exists()
