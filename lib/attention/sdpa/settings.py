"""Settings of exact scaled dot-product attention."""

from typing import ClassVar, Literal

from lib.attention.settings import MechanismSettings


class Settings(MechanismSettings):
    """Exact attention."""

    takes_bias: ClassVar[bool] = True

    kind: Literal["sdpa"]
    use_native_sdpa: bool = True
    """Use torch's fused kernel; false computes the N x N matrix in plain operations."""

    def exact_up_to(self) -> None:
        """See `MechanismSettings.exact_up_to`: all texts."""
        return

    def state_numbers(self, tokens: int, head_size: int) -> int:
        """Return the keys and values of all tokens: 2 N d numbers."""
        return 2 * tokens * head_size
