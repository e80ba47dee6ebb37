"""Settings of differential attention."""

from typing import Literal

from studies.since_2023.settings import LearnedSettings


class Settings(LearnedSettings):
    """The difference of two softmax maps, each of half of the queries' and keys' dimensions."""

    kind: Literal["differential"]

    def keys_per_query(self, tokens: int) -> int:
        """Return the keys of both maps; each is computed over the whole width."""
        return 2 * tokens

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of all tokens, 2 N d numbers."""
        return 2 * tokens * head_size
