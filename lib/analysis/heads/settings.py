"""Settings of the analysis of heads, and the thresholds that name them."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.backbones.settings import Ability
from lib.core.settings import PositiveInt, Size

GLOBAL_ENTROPY = 0.9
"""Share of the greatest possible entropy above which a head is global."""
LOCAL_DISTANCE = 0.5
"""Share of the distance of equal weights below which a head is local."""
POSITIONAL_AGREEMENT = 0.5
"""Share of the rows with their strongest key at the same place from which on a head is positional."""


class Settings(AnalysisSettings):
    """What each attention head does, over many documents: how evenly it attends, how far, and to which tokens."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["heads"]
    documents: PositiveInt = Field(200, description="How many documents of test are read, at most.")
    length: Size = Field(
        256, ge=3, description="Tokens that longer documents are cut to, since maps hold all pairs of them."
    )
    window: Size = Field(8, description="Tokens to either side that count as near.")
