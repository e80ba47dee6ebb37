"""What a training says of itself while it is under way. Changes no number."""

import time
from datetime import UTC, datetime, timedelta

from transformers import TrainerCallback

from lib.training.folders import RunFolders
from lib.training.trainer import KeyedTrainer

SECONDS = 5.0
"""At most every so often, besides evaluations and checkpoints."""


class Heartbeats(TrainerCallback):
    """Write the heartbeat of a training, and end it where another process has taken its run over.

    Args:
        trainer: of the training; this is added to its callbacks.
        folders: of the run.
    """

    def __init__(self, trainer: KeyedTrainer, folders: RunFolders):
        self.trainer, self.folders = trainer, folders
        self.began = self.beaten = time.monotonic()
        self.first = 0

    def on_train_begin(self, args, state, control, **kwargs):
        """Beat, and start the clock."""
        self.began, self.first = time.monotonic(), state.global_step
        self._beat(args, state)

    def on_step_end(self, args, state, control, **kwargs):
        """Beat if it is time."""
        if time.monotonic() - self.beaten >= SECONDS:
            self._beat(args, state)

    def on_prediction_step(self, args, state, control, **kwargs):
        """Beat if it is time, since evaluations may be long."""
        self.on_step_end(args, state, control)

    def on_evaluate(self, args, state, control, **kwargs):
        """Beat."""
        self._beat(args, state)

    def on_save(self, args, state, control, **kwargs):
        """Beat."""
        self._beat(args, state)

    def _beat(self, args, state) -> None:
        if not state.is_world_process_zero:
            return
        self.beaten = time.monotonic()
        steps = state.global_step - self.first
        seconds = (self.beaten - self.began) / steps * (state.max_steps - state.global_step) if steps else None
        self.folders.beat(
            step=state.global_step,
            steps=state.max_steps,
            epoch=float(state.epoch or 0),
            epochs=float(args.num_train_epochs),
            ends=None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds),
            **self.trainer.recorder.under_way(state),
        )
