"""Settings of the analysis of gradients."""

from typing import Literal

from pydantic import Field

from lib.analysis.parameters import AnalysisParameters
from lib.core.sections import PositiveInt, Size


class Parameters(AnalysisParameters):
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
