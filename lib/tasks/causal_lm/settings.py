"""Settings of causal language modelling."""

from typing import ClassVar, Literal

from lib.backbones.settings import Ability
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Causal language modelling: every token is predicted from those before it."""

    trains_on: ClassVar[Ability | None] = "past_states"
    head: ClassVar[str | None] = "masked_lm"  # the same head; only its context differs

    kind: Literal["causal_lm"]

    def predicted_share(self) -> float:
        """See `TaskSettings.predicted_share`."""
        return 1.0
