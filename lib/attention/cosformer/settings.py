"""Settings of cosFormer."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import PositiveFloat


class Settings(MechanismSettings):
    """Linear attention by ReLU features, reweighted by the cosine of the distance."""

    takes_attention_dropout: ClassVar[bool] = False
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["cosformer"]
    eps: PositiveFloat = 1e-6
    """Added to the features, so that a query that matches no key has weights, too."""

    def keys_per_query(self, tokens: int) -> int:
        """Return the features of a head 64 wide, two a dimension, met once to sum over keys and once to read."""
        return 2 * 2 * 64

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the sums over the keys of 2 d features, and of their products with values: 2 d (d + 1) numbers."""
        return 2 * head_size * (head_size + 1)
