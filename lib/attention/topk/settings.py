"""Settings of top-k attention."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Size


class Settings(MechanismSettings):
    """Exact attention to the keys of a query's highest scores, and to no others."""

    takes_bias: ClassVar[bool] = True

    kind: Literal["topk"]
    keys: Size
    """Keys that a query attends to; all, if a text has no more."""

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: all keys are chosen."""
        return self.keys

    def name(self) -> str:
        """Return the canonical name."""
        return f"topk-k{self.keys}"

    def keys_per_query(self, tokens: int) -> int:
        """Return the chosen keys, and half of all for their scores, without values."""
        return min(self.keys, tokens) + tokens // 2

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the keys and values of all tokens, since a query is scored against every key: 2 N d numbers."""
        return 2 * tokens * head_size
