"""Settings of attention mechanisms: the base of all, and the axis that finds each by its kind. Imports no torch."""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from lib.core.kinds import Axis, KindSettings

Kernels = Literal["auto", "torch", "triton"]


class MechanismSettings(KindSettings):
    """Base of the settings and the declared properties of every attention mechanism.

    Layers, backbones and the contract tests read these declarations; they assume nothing else.
    """

    shares_query_and_key: ClassVar[bool] = False
    """Whether one projection serves as query and key; weights move only between mechanisms that agree."""
    takes_attention_dropout: ClassVar[bool] = True
    """Whether there are attention weights that dropout could act on."""
    takes_bias: ClassVar[bool] = False
    """Whether it has scores that can get a bias, as with ALiBi."""

    row_stochastic: ClassVar[bool] = True
    """Whether a token's attention weights are non-negative and sum to 1, apart from an `eps`; only such weights
    can be analysed as attention maps."""
    depends_on_positions: ClassVar[bool] = False
    """Whether the order of the tokens matters to the mechanism itself. Otherwise permuted tokens have permuted outputs.
    Positions are counted over real tokens, so that padding stays exact."""
    is_learned: ClassVar[bool] = False
    """Whether the mechanism has trainable weights, so that it must be part of the model."""

    def longest(self) -> int | None:
        """Return the maximum length of a text in tokens; None = any."""
        return None

    def exact_up_to(self) -> int | None:
        """Return the length in tokens up to which attention is exact; None = any, 0 = never.

        Exact means that every token sees all others, with the weights of exact attention.
        """
        return 0

    def state_numbers(self, tokens: int, head_size: int) -> int | None:
        """Return the numbers that a layer keeps of a text in each head of keys (`lib.backbones.state_size`).

        Args:
            tokens: N, real tokens of the text.
            head_size: d, width of a head.

        Returns:
            The numbers; None = unknown.
        """
        return None

    def name(self) -> str:
        """Return the spelling of these settings, used in configuration, paths and tables."""
        return self.kind

    def keys_per_query(self, tokens: int) -> int:
        """Return the cost of a query in a sequence of `tokens`, as a number of keys."""
        return tokens


MECHANISMS = Axis("lib.attention", "attention mechanism", MechanismSettings)

AnyMechanism = Annotated[SerializeAsAny[MechanismSettings], BeforeValidator(MECHANISMS.parse)]
