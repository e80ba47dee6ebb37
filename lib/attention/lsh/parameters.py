"""Parameters of LSH attention (Reformer)."""

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from lib.attention.parameters import MechanismParameters


class Parameters(MechanismParameters):
    """Attention within chunks of tokens sorted by a locality-sensitive hash."""

    shares_query_and_key: ClassVar[bool] = True
    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True  # they order the tokens of a bucket, and so decide who shares a chunk

    kind: Literal["lsh"]
    num_hashes: PositiveInt = Field(description="Hash rounds, averaged.")
    chunk_size: PositiveInt = Field(description="Tokens in a chunk; each sees its own and both neighbouring chunks.")
    mask_within_chunks: bool = Field(False, description="Let a token see only tokens of its own bucket in the window.")

    def exact_up_to(self) -> int:
        """See `MechanismParameters.exact_up_to`: two chunks are neighbours, so hashes decide nothing.

        The token itself is left out, as in longer texts.
        """
        return 0 if self.mask_within_chunks else 2 * self.chunk_size

    def name(self) -> str:
        """Return the canonical name."""
        return f"lsh-h{self.num_hashes}-c{self.chunk_size}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the window of three chunks in each hash round."""
        return self.num_hashes * 3 * self.chunk_size
