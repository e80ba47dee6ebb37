"""Parameters of attention within chunks."""

from typing import ClassVar, Literal

from pydantic import PositiveInt

from lib.attention.parameters import MechanismParameters


class Parameters(MechanismParameters):
    """Attention of a chunk of tokens to itself and to the chunk before it."""

    depends_on_positions: ClassVar[bool] = True

    kind: Literal["chunked"]
    size: PositiveInt = 5

    def name(self) -> str:
        """Return the canonical name."""
        return f"chunked-s{self.size}"
