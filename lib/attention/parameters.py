"""Settings of attention mechanisms: the base of all, and the axis that finds each by its kind. Imports no torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from lib.core.kinds import Axis, KindParameters

Kernels = Literal["auto", "torch", "triton"]


class MechanismParameters(KindParameters):
    """Base of the parameters of every attention mechanism."""

    shares_query_and_key: ClassVar[bool] = False
    """Whether one projection serves as query and key; weights move only between mechanisms that agree."""
    takes_attention_dropout: ClassVar[bool] = True
    """Whether there are attention weights that dropout could act on."""
    takes_bias: ClassVar[bool] = False
    """Whether there are scores to which a bias can be added, as by ALiBi."""

    def name(self) -> str:
        """Return the spelling of these parameters, used in configuration, paths and tables."""
        return self.kind

    def keys_per_query(self, tokens: int) -> int:
        """Return with how many keys' worth of work a query costs in a sequence of `tokens`."""
        return tokens


MECHANISMS = Axis("lib.attention", "attention mechanism", MechanismParameters)

AnyMechanism = Annotated[SerializeAsAny[MechanismParameters], BeforeValidator(MECHANISMS.parse)]
