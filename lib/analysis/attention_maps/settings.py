"""Settings of attention maps."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.backbones.settings import Ability
from lib.core.settings import NonNegativeInt


class Settings(AnalysisSettings):
    """Who attends to whom in one document, as the model was drawn and as it was trained."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["attention_maps"]
    document: NonNegativeInt = Field(0, description="Which document of test (of a corpus: held-out), counted from 0.")
