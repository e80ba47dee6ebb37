"""Settings of attention mechanisms: the base of all, and the axis that finds each by its kind. Imports no torch."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator, SerializeAsAny

from lib.core.errors import ConfigError
from lib.core.kinds import Axis, KindSettings

Kernels = Literal["auto", "torch", "triton"]
Reads = Literal["heads", "both", "states"]
"""Input of a mechanism: queries, keys and values; the states that they are projected from as well; or these alone."""

EXPECTED = "Expected one mechanism, or a list that repeats over the layers, such as [window-w16-g0, sdpa]"
"""End of a message about a wrong `mechanism`."""


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
    linear_in_values: ClassVar[bool] = True
    """Whether its outputs are linear in the values, so that it has weights to look at; not if it normalises them."""

    def reads(self) -> Reads:
        """Return its input."""
        return "heads"

    def tells_order(self) -> bool:
        """Whether it tells the order of tokens where no queries and keys are turned by their positions."""
        return self.depends_on_positions

    def longest(self) -> int | None:
        """Return the maximum length of a text in tokens; None = any."""
        return None

    def exact_up_to(self) -> int | None:
        """Return the greatest length in tokens at which attention is exact; None = any, 0 = never.

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

    def is_called(self, name: str) -> bool:
        """Whether a study may call it so: as it is spelled, or with a suffix."""
        return name == self.name() or name.startswith(f"{self.name()}-")

    def code(self) -> list[str]:
        """Return dotted names of modules beyond those of its kind that it runs, whose changes make runs stale."""
        return []

    def keys_per_query(self, tokens: int) -> int:
        """Return the cost of a query in a sequence of `tokens`, as a number of keys."""
        return tokens


MECHANISMS = Axis("lib.attention", "attention mechanism", MechanismSettings)

AnyMechanism = Annotated[SerializeAsAny[MechanismSettings], BeforeValidator(MECHANISMS.parse)]

Entry = TypeVar("Entry")

Mechanisms = MechanismSettings | list[MechanismSettings]
"""The mechanism of all layers, or several that repeat over the layers."""


def parse_mechanisms(values: Any) -> Mechanisms:
    """Return the typed settings of one mechanism, or of a list of several.

    Of a list that repeats itself, its shortest part is returned, so that equal models have equal settings.

    Raises:
        ConfigError: the list is empty, or a kind is unknown.
        pydantic.ValidationError: a setting is unknown, missing or out of range.
    """
    if not isinstance(values, list):
        return MECHANISMS.parse(values)
    if not values:
        raise ConfigError(f"{values} names no mechanism. {EXPECTED}")
    found = [MECHANISMS.parse(each) for each in values]
    sizes = (size for size in range(1, len(found)) if len(found) % size == 0)
    size = next((size for size in sizes if found[:-size] == found[size:]), len(found))
    return found[0] if size == 1 else found[:size]


def complete(mechanism: Mechanisms) -> dict[str, Any] | list[dict[str, Any]]:
    """Return settings with all defaults, so that a saved model does not depend on later ones."""
    return [each.model_dump() for each in mechanism] if isinstance(mechanism, list) else mechanism.model_dump()


def each_of(mechanism: Entry | list[Entry] | None) -> list[Entry]:
    """Return the entries of a list of mechanisms, names or settings; a single one is the only entry, None has none."""
    return mechanism if isinstance(mechanism, list) else [] if mechanism is None else [mechanism]


def odd_window_errors(window_blocks: int) -> Iterator[str]:
    """Yield the error in a window of an even number of blocks, which has no middle."""
    if window_blocks % 2 == 0:
        yield f"window_blocks = {window_blocks} is even, so that no block is in the middle. Use {window_blocks + 1}"


def least(lengths: Iterable[int | None]) -> int | None:
    """Return the shortest of several lengths in tokens; None = any length."""
    return min((length for length in lengths if length is not None), default=None)


def kinds_of(mechanisms: Sequence[MechanismSettings]) -> str:
    """Return the kinds of mechanisms, each once, as a name: `window+sdpa`."""
    return "+".join(dict.fromkeys(each.kind for each in mechanisms))


AnyMechanisms = Annotated[
    SerializeAsAny[MechanismSettings] | list[SerializeAsAny[MechanismSettings]], BeforeValidator(parse_mechanisms)
]
