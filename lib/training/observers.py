"""The moments of a training that observers are called at: heartbeats, measurements, searches. They change no number."""

from typing import Any


class Observer:
    """Base of what watches a `lib.training.trainer.Trainer`; methods are called at its moments, and do nothing here."""

    def began(self, trainer: Any) -> None:
        """Hear that the training begins, or goes on, with the weights and the progress that it has now."""

    def has_gradients(self, trainer: Any) -> None:
        """Hear that the gradients of a step are there, clipped, and the optimiser is about to use them."""

    def stepped(self, trainer: Any) -> None:
        """Hear that an optimiser step has been done."""

    def predicted_batch(self, trainer: Any) -> None:
        """Hear that a batch of an evaluation has been predicted."""

    def evaluated(self, trainer: Any) -> None:
        """Hear that an evaluation has completed the last row of the history."""

    def saved(self, trainer: Any) -> None:
        """Hear that a checkpoint has been written."""

    def state(self) -> Any:
        """Return what a checkpoint must hold, as JSON has it; None = nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Take up what `state` returned."""
