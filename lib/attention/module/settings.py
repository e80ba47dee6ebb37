"""Settings of a torch module in place of attention."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from lib.attention.settings import MechanismSettings, Reads
from lib.core.extensions import extensions
from lib.core.settings import PositiveInt, check

TRUSTED = {"torch", "transformers"}
"""Packages whose classes need no extension; a program adds that of a class which its user typed."""


class Settings(MechanismSettings):
    """A `torch.nn.Module` of any package, as it is."""

    takes_attention_dropout: ClassVar[bool] = False
    row_stochastic: ClassVar[bool] = False
    linear_in_values: ClassVar[bool] = False
    is_learned: ClassVar[bool] = True
    model_config = ConfigDict(serialize_by_alias=True)

    kind: Literal["module"]
    class_name: str = Field(alias="class", pattern=r"^\w+(\.\w+)+$")
    """Dotted name of the class, of a package in `extensions`, of torch or of transformers:
    `torch.nn.MultiheadAttention`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Arguments of its constructor beyond the sizes of the encoder, which are found by their names."""
    takes: Literal["states", "heads"] = "states"
    """`states`: a layer with projections of its own maps states [B, N, D]; `heads`: queries, keys and values
    [B, H, N, d]."""
    padding: Literal["apart", "mask"] = "apart"
    """`apart`: texts of one length at a time, without padding, which is exact whatever the module does; `mask`: whole
    batches with a mask, faster, and refused if padding reaches a real token."""
    mask: Literal["real", "padding", "added"] | None = None
    """Whether its mask is true at real tokens, at padding, or very negative there and `added` to scores; null = as the
    argument's name says. If given, the module gets one with texts of one length, too."""
    two_directions: bool = False
    """Whether a second module reads the text from its end, and both outputs are summed; for causal modules."""
    own_order: bool = False
    """Whether it tells the order of tokens by itself, so that it may read states alone in an encoder with `rope`."""
    state: PositiveInt | None = None
    """Numbers that a head keeps of a text of any length, for tables of state sizes; null = not known."""

    def __hash__(self) -> int:
        return hash(self.model_dump_json())

    @check
    def _package_is_named(self) -> Iterator[str]:
        package = self.class_name.split(".")[0]
        if package not in TRUSTED | {each.package.split(".")[0] for each in extensions()}:
            yield f"class = {self.class_name}: no extension. Add its package: extensions: [{package}]"

    def reads(self) -> Reads:
        """See `MechanismSettings.reads`."""
        return self.takes

    def state_numbers(self, tokens: int, head_size: int) -> int | None:
        """See `MechanismSettings.state_numbers`."""
        return self.state

    def tells_order(self) -> bool:
        """See `MechanismSettings.tells_order`."""
        return self.own_order

    def name(self) -> str:
        """Return the name of the class."""
        return self.class_name.rpartition(".")[2]

    def is_called(self, name: str) -> bool:
        """Whether a study may call it so: by any name."""
        return True

    def code(self) -> list[str]:
        """See `MechanismSettings.code`."""
        return [self.class_name.rpartition(".")[0]]
