"""Settings of Nyström attention (Nyströmformer)."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Few, Size


class Settings(MechanismSettings):
    """Attention through a few landmarks, means of neighbouring queries and keys."""

    takes_attention_dropout: ClassVar[bool] = False
    row_stochastic: ClassVar[bool] = False  # the inverse has negative entries
    depends_on_positions: ClassVar[bool] = True  # they decide whose mean a landmark is

    kind: Literal["nystrom"]
    landmarks: Size
    """Segments of a text, the mean of each being a landmark."""
    iterations: Few = 6
    """Iterations that invert the matrix of the landmarks."""

    def name(self) -> str:
        """Return the canonical name."""
        return f"nystrom-m{self.landmarks}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the landmarks, once as queries to all keys and once as keys of all queries."""
        return 2 * self.landmarks

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the landmarks of keys, and the value that a query reads at each: 2 min(M, N) d numbers."""
        return 2 * min(self.landmarks, tokens) * head_size
