"""Parameters of the baseline that finds everything."""

from typing import Literal

from lib.backbones.parameters import Ability, BackboneParameters


class Parameters(BackboneParameters):
    """Finds one span in every text: all of it."""

    kind: Literal["everything"]

    @property
    def abilities(self) -> frozenset[Ability]:
        """See `BackboneParameters.abilities`."""
        return frozenset({"character_probabilities"})
