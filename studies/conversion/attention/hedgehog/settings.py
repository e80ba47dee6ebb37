"""Settings of Hedgehog attention."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings


class Settings(MechanismSettings):
    """Linear attention by a feature map that each head learns."""

    takes_attention_dropout: ClassVar[bool] = False
    is_learned: ClassVar[bool] = True

    kind: Literal["hedgehog"]
    phi: Literal["softmax", "exp"] = "softmax"
    """Features of x with the learned matrix W: `softmax`, the softmax of Wx and -Wx together; `exp`, the exponentials
    of both, not normalised."""

    def name(self) -> str:
        """Return the canonical name."""
        return "hedgehog" if self.phi == "softmax" else f"hedgehog-{self.phi}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the cost of a head 64 wide: two features a dimension, met once to sum and once to read, and W."""
        return 2 * 2 * 64 + 64

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the sums over the keys of 2 d features, and of their products with values: 2 d (d + 1) numbers."""
        return 2 * head_size * (head_size + 1)
