"""Settings of LSH attention (Reformer)."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.attention.settings import MechanismSettings
from lib.core.settings import Few, Size


class Settings(MechanismSettings):
    """Attention within chunks of tokens sorted by a locality-sensitive hash."""

    shares_query_and_key: ClassVar[bool] = True
    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True  # they order the tokens of a bucket, and so decide who shares a chunk

    kind: Literal["lsh"]
    num_hashes: Few
    """Hash rounds."""
    chunk_size: Size
    """Tokens in a chunk; each sees its own and both neighbouring chunks."""
    mask_within_chunks: bool = False
    """Let a token see only tokens of its own bucket in the window."""
    # Left out where it is the default, so that the settings of earlier runs stay as they were.
    join: Literal["mean", "union"] = Field("mean", exclude_if=lambda value: value == "mean")
    """How a token's hash rounds become one output: `mean` of the rounds, each with its own softmax; `union`, one
    softmax over all tokens that it sees in any round, each counted once (Reformer)."""

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: two chunks are neighbours, so hashes decide nothing.

        The token itself is left out, as in longer texts.
        """
        return 0 if self.mask_within_chunks else 2 * self.chunk_size

    def name(self) -> str:
        """Return the canonical name."""
        return f"lsh-{'' if self.join == 'mean' else 'union-'}h{self.num_hashes}-c{self.chunk_size}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the window of three chunks in each hash round."""
        return self.num_hashes * 3 * self.chunk_size

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of a query's windows, in R rounds three chunks of C tokens: 2 min(N, 3 R C) d."""
        return 2 * min(tokens, self.num_hashes * 3 * self.chunk_size) * head_size
