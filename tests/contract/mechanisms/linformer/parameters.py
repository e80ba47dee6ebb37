"""Parameters of Linformer."""

from typing import ClassVar, Literal

from pydantic import PositiveInt

from lib.attention.parameters import MechanismParameters


class Parameters(MechanismParameters):
    """Attention to a few mixtures of the tokens, whose shares depend on positions alone and may be negative."""

    takes_attention_dropout: ClassVar[bool] = False
    row_stochastic: ClassVar[bool] = False
    depends_on_positions: ClassVar[bool] = True

    kind: Literal["linformer"]
    mixtures: PositiveInt = 6

    def longest(self) -> int | None:
        """The shares are drawn for so many positions."""
        return 64

    def name(self) -> str:
        """Return the canonical name."""
        return f"linformer-k{self.mixtures}"
