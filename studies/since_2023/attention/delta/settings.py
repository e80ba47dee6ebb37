"""Settings of the delta rule."""

from typing import Literal

from studies.since_2023.settings import RecurrentSettings


class Settings(RecurrentSettings):
    """A state that drops the old value of a key as it takes in the new one."""

    kind: Literal["delta"]
    gated: bool = False
    """Let the state decay as well, at a rate of the token."""

    def name(self) -> str:
        """Return the canonical name."""
        return "delta-gated" if self.gated else "delta"
