"""Settings of state space duality."""

from typing import Literal

from studies.since_2023.settings import RecurrentSettings


class Settings(RecurrentSettings):
    """Mamba-2's state space in both directions, with queries and keys as its directions of reading and writing."""

    kind: Literal["duality"]
