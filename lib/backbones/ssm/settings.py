"""Settings of the state-space encoder. Names are those of the attention encoder where both have one."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lib.attention.settings import AnyMechanisms, kinds_of, least
from lib.backbones.settings import VOCABULARY, OwnSettings
from lib.core.settings import Few, Probability, Size, check, unset


class Settings(OwnSettings):
    """State-space encoder: each field is the field of the same name in `SsmConfig`."""

    decisive: ClassVar[tuple[str, ...]] = (
        "hidden_size",
        "num_hidden_layers",
        "expansion",
        "head_size",
        "state_size",
        "convolution",
        "attention_period",
        "num_attention_heads",
    )

    kind: Literal["ssm"] = "ssm"
    mechanism: AnyMechanisms | None = Field(None, exclude_if=unset)
    """Parameters of the attention mechanism, or a list that repeats over the layers that attend; each model names its
    own under `mechanism`."""
    num_hidden_layers: Few = 7
    """Layers; 7 have 4 % fewer weights than the 4 of the attention encoder with its feed-forward parts."""
    expansion: Few = 2
    """A layer mixes tokens at `expansion` times the hidden size."""
    head_size: Size = 64
    """Width of a head; each head forgets at its own rate."""
    state_size: Size = 64
    """Numbers that a head carries for each of its channels."""
    convolution: Size = 7
    """Tokens under the convolution before the state, the middle one included."""
    chunk_size: Size = 64
    """Tokens that are computed at once; changes time and memory, not the result."""
    attention_period: Few | None = Field(None, exclude_if=unset)
    """Period of the layers that attend, instead of carrying a state: with 4, every fourth layer; null = none."""
    num_attention_heads: Few | None = Field(None, exclude_if=unset)
    """Heads of the layers that attend; divides `hidden_size`."""
    layer_dropout: Probability = 0.1
    """Dropout on the output of each layer."""

    @property
    def inner_size(self) -> int:
        """Width of the token mixing in a layer."""
        return self.expansion * self.hidden_size

    @check
    def _heads_share_the_width(self) -> Iterator[str]:
        if self.inner_size % self.head_size:
            yield f"head_size = {self.head_size} does not divide expansion x hidden_size = {self.inner_size}"

    @check
    def _convolution_has_a_middle(self) -> Iterator[str]:
        if self.convolution % 2 == 0:
            yield f"convolution = {self.convolution} is even, so that no token is in its middle. Choose an odd one"

    @check
    def _some_layers_attend(self) -> Iterator[str]:
        period, heads = self.attention_period, self.num_attention_heads
        if period is None:
            return
        if not 2 <= period <= self.num_hidden_layers:
            yield f"attention_period = {period}. Expected 2 to num_hidden_layers = {self.num_hidden_layers}, or none"
        elif heads is None or self.hidden_size % heads:
            found = "missing" if heads is None else f"{heads} does not divide hidden_size = {self.hidden_size}"
            yield f"num_attention_heads: {found}. The layers that attend need a divisor of it"
        else:
            yield from self.list_errors()

    @property
    def takes_mechanism(self) -> bool:  # type: ignore[override]  # of others, the kind decides alone
        """See `BackboneSettings.takes_mechanism`: if some layers attend."""
        return self.attention_period is not None

    @property
    def needs_mechanism(self) -> bool:  # type: ignore[override]
        """See `BackboneSettings.needs_mechanism`: if some layers attend."""
        return self.takes_mechanism

    @property
    def family(self) -> str:
        """Its kind, and those of its mechanisms."""
        return "+".join(filter(None, (self.kind, kinds_of(self.held_mechanisms))))

    @property
    def linear_layers(self) -> frozenset[str]:
        """See `BackboneSettings.linear_layers`."""
        held = self.held_mechanisms
        attention = {"query", "value", "output"} if held else set()
        keys = set() if all(mechanism.shares_query_and_key for mechanism in held) else {"key"}
        return frozenset({"in_proj", "out_proj", "fc_D"} | attention | keys)

    def longest(self) -> int | None:
        """See `BackboneSettings.longest`: some mechanisms have an end."""
        return least(mechanism.longest() for mechanism in self.held_mechanisms)

    def attention_layers(self) -> int | None:
        """See `BackboneSettings.attention_layers`."""
        return self.num_hidden_layers // self.attention_period if self.attention_period else 0

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`."""
        width, inner, state = self.hidden_size, self.inner_size, self.state_size
        heads, chunk = inner // self.head_size, min(self.chunk_size, tokens)
        projections = width * (2 * inner + 4 * state + 2 * heads) + inner * (heads + width)
        mixing = self.convolution * (inner + 4 * state) + 2 * (chunk * (state + inner) + 2 * state * inner)
        attention = sum(
            (3 if mechanism.shares_query_and_key else 4) * width**2 + 2 * width * mechanism.keys_per_query(tokens)
            for mechanism in self.mechanism_of_layers
        )
        scans = self.num_hidden_layers - len(self.mechanism_of_layers)
        return scans * (projections + mixing) + attention + predicted_share * width * VOCABULARY

    def state_numbers(self, tokens: int) -> int | None:
        """Return the states of all layers, and what their convolutions see.

        Each direction has a state for each channel of the inner size, the same at every length. The convolution sees
        other tokens, too, at the width of inputs and of four directions (write and read, forwards and backwards). A
        layer that attends keeps what its mechanism does.
        """
        states = 2 * self.inner_size * self.state_size
        convolved = (self.convolution - 1) * (self.inner_size + 4 * self.state_size)
        own = (self.num_hidden_layers - len(self.mechanism_of_layers)) * (states + convolved)
        heads = self.num_attention_heads or 1
        attended = [each.state_numbers(tokens, self.hidden_size // heads) for each in self.mechanism_of_layers]
        known = [number for number in attended if number is not None]
        return own + heads * sum(known) if len(known) == len(attended) else None
