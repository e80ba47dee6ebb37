"""Settings of the analysis of gradients."""

from typing import Literal

from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import PositiveInt, Size


class Settings(AnalysisSettings):
    """How much of a gradient arrives from how far, as the model was drawn and as it was trained."""

    kind: Literal["gradients"]
    documents: PositiveInt = Field(200, description="How many sequences are read, at most.")
    tokens: Literal["random", "documents"] = Field(
        "random",
        description="Sequences of tokens drawn from the vocabulary, or the last tokens of those documents of test that "
        "have `length`.",
    )
    length: Size = Field(256, ge=3, description="Tokens of a sequence.")

    @property
    def tokens_needed(self) -> int:
        """See the base."""
        return self.length
