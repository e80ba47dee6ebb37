"""Settings of LoLCATs' attention."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings, odd_window_errors
from lib.core.settings import Size, check


class Settings(MechanismSettings):
    """Softmax attention within a window of blocks, and linear attention by learned features beyond it."""

    takes_attention_dropout: ClassVar[bool] = False
    depends_on_positions: ClassVar[bool] = True
    is_learned: ClassVar[bool] = True

    kind: Literal["lolcats"]
    block_size: Size = 64
    """Real tokens of a block; the last one of a text may have fewer."""
    window_blocks: Size = 3
    """Blocks of the window, the token's own in its middle included; odd."""

    @check
    def _both_sides_are_alike(self) -> Iterator[str]:
        yield from odd_window_errors(self.window_blocks)

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: the middle and one side of a window."""
        return self.block_size * (1 + self.window_blocks // 2)

    def name(self) -> str:
        """Return the canonical name."""
        return f"lolcats-b{self.block_size}-w{self.window_blocks}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the window, and the linear branch of a head 64 wide: two features a dimension, met twice, and W."""
        return min(tokens, self.block_size * self.window_blocks) + 2 * 2 * 64 + 64

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of the w blocks of b tokens, and the linear branch: 2 min(N, w b) d + 2 d (d + 1)."""
        window = min(tokens, self.block_size * self.window_blocks)
        return 2 * window * head_size + 2 * head_size * (head_size + 1)
