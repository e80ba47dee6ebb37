"""Settings of strided attention (Sparse Transformer)."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Size


class Settings(MechanismSettings):
    """Attention of every token to those nearby, and to those at multiples of a stride from it."""

    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["strided"]
    stride: Size
    """A token sees all tokens that are nearer than this, and of the others those at multiples of it. The square root of
    the length costs least; 1 = exact attention."""

    def exact_up_to(self) -> int | None:
        """See `MechanismSettings.exact_up_to`: first and last token are a stride apart."""
        return None if self.stride == 1 else self.stride + 1

    def name(self) -> str:
        """Return the canonical name."""
        return f"strided-s{self.stride}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the tokens nearby and every stride-th of all."""
        return min(tokens, 2 * self.stride - 1 + -(-tokens // self.stride))

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of 2 s - 1 tokens nearby and of every s-th other: 2 min(N, 2 s - 1 + N / s) d."""
        beyond = (tokens - 1) // self.stride
        return 2 * min(tokens, 2 * self.stride - 1 + beyond) * head_size
