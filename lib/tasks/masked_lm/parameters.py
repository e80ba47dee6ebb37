"""Parameters of masked language modelling."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from lib.core.kinds import TaskParameters
from lib.core.settings import Fraction, check


class Parameters(TaskParameters):
    """Masked language modelling: which tokens are predicted, and what stands in their place."""

    kind: Literal["masked_lm"]
    objective: Literal["mlm", "mntp"] = Field(
        "mlm",
        description="Where a token is predicted: `mlm`, at its own position; `mntp`, at the one before it, as the head "
        "of a causal language model has learnt to.",
    )
    mask_probability: Fraction = Field(0.15, description="Share of the ordinary tokens that are predicted.")
    mask_token_probability: Fraction = Field(0.8, description="Of those, the share replaced by [MASK].")
    random_token_probability: Fraction = Field(0.1, description="Of those, the share replaced by a random token.")

    @check
    def _shares_fit(self) -> Iterator[str]:
        total = self.mask_token_probability + self.random_token_probability
        if total > 1:
            yield f"mask_token_probability + random_token_probability = {total:g}; expected at most 1"

    def predicted_share(self) -> float:
        """See `TaskParameters.predicted_share`."""
        return self.mask_probability
