"""Callbacks of a training run, for heartbeats, measurements and searches. They change no number."""

from typing import Any


class Observer:
    """Base class of callbacks of a `lib.training.trainer.Trainer`; these methods do nothing."""

    def began(self, trainer: Any) -> None:
        """Handle the beginning or resumption of the training, after its weights and progress are loaded."""

    def has_gradients(self, trainer: Any) -> None:
        """Handle the clipped gradients of a step, before the optimiser uses them."""

    def stepped(self, trainer: Any) -> None:
        """Handle the end of an optimiser step."""

    def predicted_batch(self, trainer: Any) -> None:
        """Handle a predicted batch of an evaluation."""

    def evaluated(self, trainer: Any) -> None:
        """Handle an evaluation, which has completed the last row of the history."""

    def saved(self, trainer: Any) -> None:
        """Handle a written checkpoint."""

    def state(self) -> Any:
        """Return the state for a checkpoint, as JSON values; None = no state."""
        return None

    def restore(self, state: Any) -> None:
        """Restore the result of `state`."""
