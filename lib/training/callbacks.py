"""What the Trainer lacks, as callbacks: keyed draws, freezing, timed checkpoints, the history."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState

from lib.attention.contract import set_step
from lib.core.errors import RunError
from lib.core.memory import resident_peak_mb
from lib.training import ranks
from lib.training.interruptions import Interruption

logger = logging.getLogger(__name__)

LEAVE = 2
"""A process's wish to end the training after a checkpoint; one to write a checkpoint alone is 1."""


class KeyedDraws(TrainerCallback):
    """Tell the attention mechanisms the optimiser step that their draws belong to."""

    def on_step_begin(self, args, state, control, model, **kwargs):
        """Set the step before the first micro-batch of every optimiser step."""
        set_step(model, state.global_step)


class Freezing(TrainerCallback):
    """Keep the lowest blocks, the embeddings, or both, from training for the first epochs.

    The optimiser must hold all weights before: the Trainer builds it from those that require gradients.

    Args:
        layers: how many of the lowest blocks stand still; 0 = none.
        embeddings: whether the embeddings stand still.
        epochs: epochs until they train.
    """

    def __init__(self, layers: int, embeddings: bool, epochs: int):
        self.layers, self.embeddings, self.epochs = layers, embeddings, epochs

    def on_epoch_begin(self, args, state, control, model, **kwargs):
        """Freeze or thaw, as the epoch asks."""
        encoder = model.base_model
        frozen = [*encoder.layers[: self.layers], *([encoder.embeddings] if self.embeddings else [])]
        # The epoch is a float that counts up by fractions.
        trains = round(state.epoch or 0, 6) >= self.epochs
        for module in frozen:
            module.requires_grad_(trains)


class TimedCheckpoints(TrainerCallback):
    """Save a working checkpoint when the last one is older than some minutes, besides those at epochs' ends.

    Args:
        minutes: between checkpoints.
        interruption: a signal that has come; after a checkpoint, which it asks for, it ends the run.
    """

    def __init__(self, minutes: float, interruption: Interruption):
        self.seconds = 60 * minutes
        self.interruption = interruption
        self.saved_at = time.monotonic()
        self.leaves = False

    def on_train_begin(self, args, state, control, **kwargs):
        """Look for signals between steps from now on."""
        self.interruption.waits = True

    def on_train_end(self, args, state, control, **kwargs):
        """Let signals end the run where it is, since its last checkpoint has been written."""
        self.interruption.waits = False

    def on_step_end(self, args, state, control, **kwargs):
        """Ask for a checkpoint when it is time, or a signal has come.

        Not at the last step of an epoch or of the training: an evaluation with a checkpoint of its own may follow, and
        one before it would lack the row and the evaluation, which a resumed run could not make good.
        """
        ends = float(state.epoch).is_integer() or control.should_training_stop
        is_due = time.monotonic() - self.saved_at >= self.seconds
        wish = ranks.largest(LEAVE if self.interruption.is_wanted else int(is_due))
        self.leaves = wish == LEAVE
        if wish and not ends:
            control.should_save = True

    def on_save(self, args, state, control, **kwargs):
        """Start counting anew, or end the run.

        Raises:
            RunError: a signal has come.
        """
        self.saved_at = time.monotonic()
        if self.leaves:
            self.interruption.leave()


class HistoryRecorder(TrainerCallback, ExportableState):
    """Keep a row of figures for every evaluation, of the training since the one before, through interruptions.

    The Trainer forgets the losses and the time of an epoch's first part when it resumes in the middle.

    Args:
        multipliers: factor on the learning rate by part of the model, as the optimiser's groups name it. Each part has
            a column of its own if any factor is not 1.
    """

    def __init__(self, multipliers: Mapping[str, float]):
        self.multipliers = dict(multipliers)
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.loss: float | torch.Tensor = 0.0
        self.steps = 0
        self.tokens_before = 0
        self.peak_memory_mb = 0.0
        self._running_since: float | None = None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {
            "args": {"multipliers": self.multipliers},
            "attributes": {
                "rows": self.rows,
                "seconds": self._elapsed(),
                "loss": float(self.loss),
                "steps": self.steps,
                "tokens_before": self.tokens_before,
                "peak_memory_mb": self.measured_peak(),
            },
        }

    def add_loss(self, loss: torch.Tensor) -> None:
        """Add a micro-batch's share of an optimiser step's loss; stays on the device, without waiting for it."""
        self.loss = self.loss + loss

    def under_way(self, state: TrainerState) -> dict[str, float | None]:
        """Return the mean loss and the speed since the last row; of that row before the first step after it."""
        if self.steps:
            tokens = state.num_input_tokens_seen - self.tokens_before
            return {"loss": float(self.loss) / self.steps, "tokens_per_second": tokens / self._elapsed()}
        row = self.rows[-1] if self.rows else {}
        return {"loss": row.get("train_loss"), "tokens_per_second": row.get("tokens_per_second")}

    def measured_peak(self) -> float:
        """Return the highest memory so far, in MiB: GPU memory on a GPU, resident memory on a CPU."""
        on_gpu = torch.cuda.is_initialized()
        peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else resident_peak_mb()
        self.peak_memory_mb = max(self.peak_memory_mb, peak)
        return self.peak_memory_mb

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Start the clock."""
        self._start_clock()

    def on_step_begin(self, args, state, control, **kwargs):
        """Start the clock again after an evaluation within an epoch."""
        self._start_clock()

    def on_step_end(self, args, state, control, **kwargs):
        """Count the optimiser step, and write a row if an evaluation follows; see `on_epoch_end`."""
        self.steps += 1
        self._write_row(args, state, control, **kwargs)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Write a row if an evaluation follows.

        Raises:
            RunError: the mean loss since the last row is no finite number.
        """
        self._write_row(args, state, control, **kwargs)

    def _write_row(self, args, state, control, *, lr_scheduler, train_dataloader, **kwargs) -> None:
        if not control.should_evaluate:
            return
        loss = float(self.loss) / max(self.steps, 1)
        if not math.isfinite(loss):
            raise RunError(
                f"the training loss up to step {state.global_step} is {loss}; expected a finite number. Lower the "
                "learning rate, or use precision bf16 or fp32.",
                diverged=True,
            )
        seconds = self._elapsed()
        self.peak_memory_mb = ranks.largest(self.measured_peak())
        # Counted in optimiser steps: how documents are split into micro-batches must not change it.
        epoch = state.global_step / math.ceil(len(train_dataloader) / args.gradient_accumulation_steps)
        rates = {group["part"]: group["lr"] for group in lr_scheduler.optimizer.param_groups}
        # The recipe's own rate: that of a part with the multiplier 1, or what a part's would be with it.
        part = max(rates, key=lambda name: (self.multipliers[name] == 1, self.multipliers[name]))
        rate = rates[part] / self.multipliers[part] if self.multipliers[part] else 0.0
        self.rows.append(
            {
                "epoch": int(epoch) if epoch.is_integer() else round(epoch, 6),
                "step": state.global_step,
                "seconds": seconds,
                "tokens_per_second": (state.num_input_tokens_seen - self.tokens_before) / seconds,
                "peak_memory_mb": self.peak_memory_mb,
                "train_loss": loss,
                "learning_rate": rate,
            }
        )
        if any(multiplier != 1 for multiplier in self.multipliers.values()):
            self.rows[-1] |= {f"learning_rate_{name}": rates[name] for name in rates}
        self.tokens_before = state.num_input_tokens_seen
        self.seconds, self.loss, self.steps, self._running_since = 0.0, 0.0, 0, None
        control.should_log = True

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        """Complete the row with its evaluation."""
        figures = quality_figures(metrics, "eval")
        if self.rows and state.global_step == self.rows[-1]["step"]:
            self.rows[-1].update(figures)
            logger.info(", ".join(f"{key} {value:.6g}" for key, value in self.rows[-1].items()))

    def _start_clock(self) -> None:
        if self._running_since is None:
            self._running_since = time.perf_counter()

    def _elapsed(self) -> float:
        running = time.perf_counter() - self._running_since if self._running_since is not None else 0.0
        return self.seconds + running


def quality_figures(metrics: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the figures among `metrics` that begin with `prefix`, without the Trainer's figures of speed."""
    speed = ("_runtime", "_per_second", "_preparation_time")
    return {key: value for key, value in metrics.items() if key.startswith(f"{prefix}_") and not key.endswith(speed)}
