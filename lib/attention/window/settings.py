"""Settings of attention within a window."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings
from lib.core.settings import Size, SizeOrZero, check


class Settings(MechanismSettings):
    """Attention of every token to those nearby, and of a few first tokens to all."""

    takes_bias: ClassVar[bool] = True
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["window"]
    width: Size
    """Tokens of the window without the one in its middle, half of them on each side, as Longformer's `attention_window`
    and ModernBERT's `local_attention` count them; even."""
    global_tokens: SizeOrZero = 0
    """First real tokens of a text that see all tokens, and are seen by all; 0 = none."""
    dilation: Size = 1
    """Distance between two neighbouring tokens of a window; 1 = no gaps. Half the width is seen on each side, whatever
    the distance."""

    @check
    def _both_sides_are_alike(self) -> Iterator[str]:
        if self.width % 2:
            yield f"width = {self.width} is odd, but half of it is seen on each side. Use {self.width + 1}"

    def exact_up_to(self) -> int:
        """See `MechanismSettings.exact_up_to`: the global tokens, and one side of a window without gaps."""
        return self.global_tokens + 1 + (self.width // 2 if self.dilation == 1 else 0)

    def name(self) -> str:
        """Return the canonical name."""
        return f"window-w{self.width}-g{self.global_tokens}" + (f"-d{self.dilation}" if self.dilation > 1 else "")

    def keys_per_query(self, tokens: int) -> int:
        """Return the window, its middle and the global tokens."""
        return min(tokens, self.width + 1 + self.global_tokens)

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return keys and values of the window of w + 1 tokens and of g global ones: 2 min(N, w + 1 + g) d numbers."""
        return 2 * min(tokens, self.width + 1 + self.global_tokens) * head_size
