"""Settings of top-k attention by blocks."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Size, SizeOrZero


class Settings(MechanismSettings):
    """Exact attention of every block of tokens to its neighbours, and to the blocks whose mean key matches best."""

    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["topk_blocks"]
    block_size: Size
    """Real tokens in a block."""
    blocks: Size
    """Blocks chosen for a block of queries, in addition to its window."""
    window: SizeOrZero = 1
    """Blocks to either side of its own that a block always attends to."""

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: the first block, its window on one side and the chosen blocks."""
        return (1 + self.window + self.blocks) * self.block_size

    def name(self) -> str:
        """Return the canonical name."""
        return f"topk_blocks-b{self.block_size}-k{self.blocks}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the tokens of the window and of the chosen blocks; the choice costs less than they do."""
        return min(tokens, (2 * self.window + 1 + self.blocks) * self.block_size)

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of 2 w + 1 + k blocks of b tokens, and if there are more blocks, the mean key of each.

        That is 2 min(N, b (2 w + 1 + k)) d numbers, and d for each of ceil(N / b) blocks.
        """
        seen, blocks = 2 * self.window + 1 + self.blocks, -(-tokens // self.block_size)
        means = blocks if blocks > seen else 0
        return (2 * min(tokens, seen * self.block_size) + means) * head_size
