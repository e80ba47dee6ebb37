"""Report the progress of a training: heartbeats for `make status`, TensorBoard, Weights & Biases. Changes no number."""

import importlib
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lib.core.record import NamesRun, RunRecord
from lib.study.run import RunSettings
from lib.training import distributed
from lib.training.folders import RunFolders
from lib.training.predictor import Observer
from lib.training.trainer import Trainer

SECONDS = 5.0
"""Shortest time between heartbeats, except at evaluations and checkpoints."""
SECTIONS = {"eval_": "eval/", "test_": "test/", "train_": "train/"}
"""Sections of trackers, by the prefix of a metric's name."""


class Heartbeats(Observer):
    """Writes the heartbeat of a training run, and stops it if another process has taken the run over.

    Args:
        folders: folders of the run.
    """

    def __init__(self, folders: RunFolders):
        self.folders = folders
        self.start = self.last = time.monotonic()
        self.first = 0

    def began(self, trainer: Trainer) -> None:
        """Beat, and start the clock."""
        self.start, self.first = time.monotonic(), trainer.progress.step
        self.saved(trainer)

    def stepped(self, trainer: Trainer) -> None:
        """Beat if it is time."""
        if time.monotonic() - self.last >= SECONDS:
            self.saved(trainer)

    predicted_batch = stepped  # evaluations may be long

    def saved(self, trainer: Trainer) -> None:
        """Beat, whatever the time."""
        if distributed.index():
            return
        self.last = time.monotonic()
        progress = trainer.progress
        steps = progress.step - self.first
        seconds = (self.last - self.start) / steps * (trainer.steps - progress.step) if steps else None
        self.folders.beat(
            step=progress.step,
            steps=trainer.steps,
            epoch=progress.epoch,
            epochs=float(trainer.recipe.epochs),
            ends=None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds),
            **trainer.history.under_way(progress.tokens),
        )

    evaluated = saved


class Trackers(Observer):
    """Logs every row of the history and the final metrics to the trackers in the settings.

    Weights & Biases settings in the user's environment take precedence.

    Args:
        run: settings of the run.
        folder: folder for their files, moved with the results.
    """

    def __init__(self, run: RunSettings, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.writer: Any = None
        self.wandb: Any = None

    def began(self, trainer: Trainer) -> None:
        """Open the trackers and log the settings of the run."""
        execution, settings = self.run.execution, self.run.model_dump(mode="json")
        if execution.report_to:
            self.folder.mkdir(exist_ok=True)
        if "tensorboard" in execution.report_to:
            self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(self.folder / "tensorboard")
            self.writer.add_text("run", self.run.model_dump_json(indent=2))
            self.writer.add_text("model", trainer.model.config.to_json_string())
        if "wandb" in execution.report_to:
            os.environ.setdefault("WANDB_DIR", str(self.folder))
            self.wandb = importlib.import_module("wandb").init(
                project=os.environ.get("WANDB_PROJECT", execution.wandb_project),
                entity=os.environ.get("WANDB_ENTITY", execution.wandb_entity),
                name=run_name(self.run),
                config={"run": settings, "model": trainer.model.config.to_dict()},
            )
            self.wandb.define_metric("train/global_step")
            self.wandb.define_metric("*", step_metric="train/global_step", step_sync=True)

    def evaluated(self, trainer: Trainer) -> None:
        """Log the last row of the history."""
        extra = {"grad_norm": trainer.grad_norm, "tokens": trainer.progress.tokens}
        self.log(trainer.history.rows[-1] | extra, trainer.progress.step)

    def log(self, figures: Mapping[str, Any], step: int) -> None:
        """Log the metrics of an optimiser step."""
        named = {_place(name): value for name, value in figures.items() if name != "step" and value is not None}
        if self.writer is not None:
            for name, value in named.items():
                self.writer.add_scalar(name, value, step)
            self.writer.flush()
        if self.wandb is not None:
            self.wandb.log(named | {"train/global_step": step})

    def close(self, trainer: Trainer, record: RunRecord) -> None:
        """Log test scores, speed and memory, and flush, before the results are moved into place.

        Args:
            trainer: trainer after training.
            record: record of the run.
        """
        tested = {name: value for name, value in record.metrics.items() if name.startswith("test_")}
        speed = {
            "seconds_per_epoch": record.seconds_per_epoch,
            "mean_tokens_per_second": record.tokens_per_second,
            "peak_memory_mb": record.peak_memory_mb,
        }
        self.log(tested | speed, trainer.progress.step)
        if self.writer is not None:
            self.writer.close()
        if self.wandb is not None:
            self.wandb.finish()


def _place(name: str) -> str:
    """Return the name of a metric in trackers, with its section."""
    prefix = next((prefix for prefix in SECTIONS if name.startswith(prefix)), "")
    return SECTIONS.get(prefix, "train/") + name.removeprefix(prefix)


def run_name(run: RunSettings) -> str:
    """Return the name of `run` in trackers."""
    return run.execution.run_name.format_map(NamesRun.of(run).id._asdict())
