"""Settings of gated linear attention."""

from typing import Literal

from studies.since_2023.settings import RecurrentSettings


class Settings(RecurrentSettings):
    """Linear attention whose state decays, each channel of the keys at a rate of the token."""

    kind: Literal["gated_linear"]
