"""Settings of the baseline that finds everything."""

from typing import Literal

from lib.backbones.settings import Ability, BackboneSettings


class Settings(BackboneSettings):
    """Finds one span in every text: all of it."""

    kind: Literal["everything"]

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneSettings.abilities`."""
        return frozenset({"character_probabilities"})
