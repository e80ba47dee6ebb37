"""Progress heartbeat of a training run. Changes no number."""

import math
import time
from datetime import UTC, datetime, timedelta

from lib.core.attempts import PARTS
from lib.training import ranks
from lib.training.folders import RunFolders
from lib.training.predictor import Observer
from lib.training.trainer import Trainer

SECONDS = 5.0
"""Shortest time between heartbeats, except at evaluations and checkpoints."""


class Heartbeats(Observer):
    """Writes the heartbeat of a training run, and stops it if another process has taken the run over.

    Args:
        folders: folders of the run.
    """

    def __init__(self, folders: RunFolders):
        self.folders = folders
        self.start = self.last = time.monotonic()
        self.first = 0
        self.loss, self.steps = [0.0] * PARTS, [0] * PARTS  # sums over the parts of the training

    def began(self, trainer: Trainer) -> None:
        """Beat, and start the clock."""
        self.start, self.first = time.monotonic(), trainer.progress.step
        self._beat(trainer)

    def stepped(self, trainer: Trainer) -> None:
        """Note the loss, and beat if it is time."""
        part = (trainer.progress.step - 1) * PARTS // trainer.steps
        self.loss[part] += trainer.loss
        self.steps[part] += 1
        self._beat_in_time(trainer)

    def predicted_batch(self, trainer: Trainer) -> None:
        """Beat if it is time, since evaluations may be long."""
        self._beat_in_time(trainer)

    def evaluated(self, trainer: Trainer) -> None:
        """Beat."""
        self._beat(trainer)

    def saved(self, trainer: Trainer) -> None:
        """Beat."""
        self._beat(trainer)

    def _beat_in_time(self, trainer: Trainer) -> None:
        if time.monotonic() - self.last >= SECONDS:
            self._beat(trainer)

    def _beat(self, trainer: Trainer) -> None:
        if ranks.index():
            return
        self.last = time.monotonic()
        progress = trainer.progress
        begun = math.ceil(progress.step * PARTS / trainer.steps)
        steps = progress.step - self.first
        seconds = (self.last - self.start) / steps * (trainer.steps - progress.step) if steps else None
        self.folders.beat(
            step=progress.step,
            steps=trainer.steps,
            epoch=progress.epoch,
            epochs=float(trainer.recipe.epochs),
            ends=None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds),
            losses=[loss / steps if steps else None for loss, steps in zip(self.loss, self.steps, strict=True)][:begun],
            **trainer.history.under_way(progress.tokens),
        )
