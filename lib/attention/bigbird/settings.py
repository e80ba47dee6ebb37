"""Settings of BigBird's attention."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings, odd_window_errors
from lib.core.settings import Size, SizeOrZero, check


class Settings(MechanismSettings):
    """Attention of every block of tokens to those nearby, to global ones, and to some drawn at random."""

    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["bigbird"]
    block_size: Size = 64
    """Real tokens of a block; the last one of a text may have fewer."""
    window_blocks: Size = 3
    """Blocks of the window, the token's own in its middle included; odd."""
    global_blocks: SizeOrZero = 2
    """Blocks that see all blocks and are seen by all: half of them are the first of a text and half the last; of an odd
    number, one more is at the beginning."""
    random_blocks: SizeOrZero = 3
    """Blocks drawn for each block and head among those that are neither global nor in its window."""

    @check
    def _both_sides_are_alike(self) -> Iterator[str]:
        yield from odd_window_errors(self.window_blocks)

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: global blocks, one side of a window, random blocks."""
        return self.block_size * (self.global_blocks + 1 + self.window_blocks // 2 + self.random_blocks)

    def name(self) -> str:
        """Return the canonical name."""
        return f"bigbird-b{self.block_size}-w{self.window_blocks}-g{self.global_blocks}-r{self.random_blocks}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the tokens of the blocks that a block sees, unless it is a global one."""
        return min(tokens, self.block_size * (self.window_blocks + self.global_blocks + self.random_blocks))

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of the w + g + r blocks of b tokens that a block sees: 2 min(N, b (w + g + r)) d."""
        return 2 * self.keys_per_query(tokens) * head_size
