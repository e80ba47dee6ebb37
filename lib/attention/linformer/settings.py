"""Settings of Linformer."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Size


class Settings(MechanismSettings):
    """Attention to a few mixtures of the tokens, whose shares depend on positions alone and are learned."""

    row_stochastic: ClassVar[bool] = False  # shares may be negative, and need not sum to 1
    depends_on_positions: ClassVar[bool] = True
    is_learned: ClassVar[bool] = True

    kind: Literal["linformer"]
    rank: Size
    """Mixtures of keys and of values; every query attends to all."""
    length: Size
    """Most tokens that a text may have: each has its own shares."""

    def longest(self) -> int | None:
        """Return the number of tokens that have shares."""
        return self.length

    def name(self) -> str:
        """Return the canonical name."""
        return f"linformer-k{self.rank}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the mixtures, met once to mix keys and values and once to attend."""
        return 2 * self.rank

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the mixtures of keys and of values: 2 k d numbers, whatever the length."""
        return 2 * self.rank * head_size
