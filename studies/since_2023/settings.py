"""Settings that these mechanisms share. Imports no torch."""

from typing import ClassVar

from lib.attention.settings import MechanismSettings, Reads
from lib.core.settings import Size


class LearnedSettings(MechanismSettings):
    """Weights of its own, and a norm of the outputs."""

    row_stochastic: ClassVar[bool] = False
    takes_attention_dropout: ClassVar[bool] = False
    is_learned: ClassVar[bool] = True
    linear_in_values: ClassVar[bool] = False


class RecurrentSettings(LearnedSettings):
    """A state that goes through a text from both ends, with gates of the states of the layer."""

    depends_on_positions: ClassVar[bool] = True

    chunk_size: Size = 32
    """Tokens that are computed at once; changes time and memory, not the result."""

    def reads(self) -> Reads:
        """Return that it reads the states for its gates."""
        return "both"

    def keys_per_query(self, tokens: int) -> int:
        """Return for two scans the tokens of a chunk, and the state of a head 64 wide, written and read."""
        return 2 * (min(tokens, self.chunk_size) + 64)

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return a matrix for each direction: 2 d^2 numbers for any length."""
        return 2 * head_size**2
