"""Parameters of causal language modelling."""

from typing import ClassVar, Literal

from lib.backbones.parameters import Ability
from lib.tasks.parameters import TaskParameters


class Parameters(TaskParameters):
    """Causal language modelling: every token is predicted from those before it."""

    trains_on: ClassVar[Ability | None] = "past_states"
    head: ClassVar[str | None] = "masked_lm"  # the same head; only its context differs

    kind: Literal["causal_lm"]

    def predicted_share(self) -> float:
        """See `TaskParameters.predicted_share`."""
        return 1.0
