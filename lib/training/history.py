"""The history of a training run: one row of numbers per evaluation. Checkpoints store it."""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch

from lib.core.errors import RunError
from lib.core.program import resident_peak_mb
from lib.training import distributed

logger = logging.getLogger(__name__)


class History:
    """Rows of numbers of the training since the previous evaluation, with the scores of the next one.

    Args:
        multipliers: factor on the learning rate by part of the model, named as the optimiser's groups. Each part has
            its own column if any factor is not 1.
    """

    def __init__(self, multipliers: Mapping[str, float]) -> None:
        self.multipliers = multipliers
        self.rows: list[dict[str, Any]] = []
        self.seconds = 0.0
        self.loss: float | torch.Tensor = 0.0
        self.steps = 0
        self.tokens_before = 0
        self.peak_memory_mb = 0.0
        self._running_since: float | None = None

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        now = {"seconds": self._elapsed(), "loss": float(self.loss), "peak_memory_mb": self.measured_peak()}
        return {"rows": self.rows, "steps": self.steps, "tokens_before": self.tokens_before, **now}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        for name, value in state.items():
            setattr(self, name, value)

    def under_way(self, tokens: int) -> dict[str, float | None]:
        """Return mean loss and speed since the last row, or those of that row before the next step.

        Args:
            tokens: tokens seen in training so far.
        """
        if self.steps:
            speed = (tokens - self.tokens_before) / self._elapsed()
            return {"loss": float(self.loss) / self.steps, "tokens_per_second": speed}
        row = self.rows[-1] if self.rows else {}
        return {"loss": row.get("train_loss"), "tokens_per_second": row.get("tokens_per_second")}

    def measured_peak(self) -> float:
        """Return the peak memory so far in MiB, earlier attempts included, see `peak_memory_mb`."""
        self.peak_memory_mb = max(self.peak_memory_mb, peak_memory_mb())
        return self.peak_memory_mb

    def start_clock(self) -> None:
        """Start the clock unless it is running."""
        if self._running_since is None:
            self._running_since = time.perf_counter()

    def add_row(self, step: int, epoch: float, tokens: int, rates: Mapping[str, float]) -> None:
        """Begin a row, to be completed by an evaluation, and stop the clock.

        Args:
            step: optimiser steps done.
            epoch: passes over the training documents.
            tokens: tokens seen in training.
            rates: learning rate of the last step, by part of the model.

        Raises:
            RunError: the mean loss since the last row is NaN or inf.
        """
        loss = float(self.loss) / max(self.steps, 1)
        if not math.isfinite(loss):
            found = f"the training loss up to step {step} is {loss}"
            raise RunError(f"{found}. Lower the learning rate, or use precision bf16 or fp32.", diverged=True)
        seconds = self._elapsed()
        self.peak_memory_mb = distributed.largest(self.measured_peak())
        # The recipe's rate is that of a part with multiplier 1, or follows from the part with the largest one.
        part = max(rates, key=lambda name: (self.multipliers[name] == 1, self.multipliers[name]))
        row = {
            "epoch": int(epoch) if epoch.is_integer() else round(epoch, 6),
            "step": step,
            "seconds": seconds,
            "tokens_per_second": (tokens - self.tokens_before) / seconds,
            "peak_memory_mb": self.peak_memory_mb,
            "train_loss": loss,
            "learning_rate": rates[part] / self.multipliers[part] if self.multipliers[part] else 0.0,
        }
        if any(multiplier != 1 for multiplier in self.multipliers.values()):
            row |= {f"learning_rate_{name}": rates[name] for name in rates}
        self.rows.append(row)
        self.tokens_before = tokens
        self.seconds, self.loss, self.steps, self._running_since = 0.0, 0.0, 0, None

    def complete_row(self, metrics: Mapping[str, Any]) -> None:
        """Add the scores of its evaluation to the last row."""
        self.rows[-1].update(metrics)
        logger.info(", ".join(f"{key} {value:.6g}" for key, value in self.rows[-1].items()))

    def row_of(self, step: int | None) -> dict[str, Any]:
        """Return the row of the evaluation after an optimiser step."""
        return next(row for row in self.rows if row["step"] == step)

    def table(self) -> pd.DataFrame:
        """Return one row per evaluation; the order of columns does not depend on interruptions."""
        history = pd.DataFrame(self.rows)
        names = ("epoch", "step", "seconds", "tokens_per_second", "peak_memory_mb", "train_loss")
        first = [*names, *sorted(name for name in history if name.startswith("learning_rate"))]
        return history[[*first, *sorted(set(history) - set(first))]]

    def _elapsed(self) -> float:
        return self.seconds + (time.perf_counter() - self._running_since if self._running_since is not None else 0.0)


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MiB: GPU memory on a GPU, resident memory on a CPU."""
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_initialized() else resident_peak_mb()
