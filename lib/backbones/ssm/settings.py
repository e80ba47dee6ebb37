"""Settings of the state-space encoder. Names are those of the attention encoder where both have one."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import VOCABULARY, BackboneSettings
from lib.core.settings import Few, PositiveFloat, Probability, Size, check


class Settings(BackboneSettings):
    """State-space encoder: each field is the field of the same name in `SsmConfig`."""

    decisive: ClassVar[tuple[str, ...]] = (
        "hidden_size",
        "num_hidden_layers",
        "expansion",
        "head_size",
        "state_size",
        "convolution",
    )

    kind: Literal["ssm"] = "ssm"
    hidden_size: Size = Field(512, description="Width of embeddings and states.")
    num_hidden_layers: Few = Field(
        7,
        description="Layers; 7 have 4 % fewer weights than the 4 of the attention encoder with its feed-forward parts.",
    )
    expansion: Few = Field(2, description="A layer mixes tokens at `expansion` times the hidden size.")
    head_size: Size = Field(64, description="Width of a head; each head forgets at its own rate.")
    state_size: Size = Field(64, description="Numbers that a head carries for each of its channels.")
    convolution: Size = Field(7, description="Tokens under the convolution before the state, the middle one included.")
    chunk_size: Size = Field(
        64, description="Tokens that are computed at once; changes time and memory, not the result."
    )
    embedding_dropout: Probability = Field(0.1, description="Dropout on the embeddings.")
    layer_dropout: Probability = Field(0.1, description="Dropout on the output of each layer.")
    layer_norm_eps: PositiveFloat = Field(1e-12, description="Epsilon of the layer norms.")
    initializer_range: PositiveFloat = Field(
        0.02, description="Standard deviation of the initial weights of embeddings, projections and heads."
    )
    tie_word_embeddings: bool = Field(True, description="Share the MLM decoder's weight with the word embeddings.")

    @property
    def inner_size(self) -> int:
        """Width of the token mixing in a layer."""
        return self.expansion * self.hidden_size

    @check
    def _heads_share_the_width(self) -> Iterator[str]:
        if self.inner_size % self.head_size:
            yield (
                f"head_size = {self.head_size} does not divide expansion x hidden_size = {self.inner_size}. Choose one "
                "that does"
            )

    @check
    def _convolution_has_a_middle(self) -> Iterator[str]:
        if self.convolution % 2 == 0:
            yield f"convolution = {self.convolution} is even, so that no token is in its middle. Choose an odd one"

    @property
    def linear_layers(self) -> frozenset[str]:
        """See `BackboneSettings.linear_layers`."""
        return frozenset({"in_proj", "out_proj", "fc_D"})

    def blocks(self) -> int | None:
        """See `BackboneSettings.blocks`: the layers."""
        return self.num_hidden_layers

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`."""
        width, inner, state = self.hidden_size, self.inner_size, self.state_size
        heads, chunk = inner // self.head_size, min(self.chunk_size, tokens)
        projections = width * (2 * inner + 4 * state + 2 * heads) + inner * (heads + width)
        mixing = self.convolution * (inner + 4 * state) + 2 * (chunk * (state + inner) + 2 * state * inner)
        return self.num_hidden_layers * (projections + mixing) + predicted_share * width * VOCABULARY

    def state_numbers(self, tokens: int) -> int:
        """Return the states of all layers, the same at every length, and what their convolutions see.

        Each direction has a state for each channel of the inner size. The convolution sees other tokens, too, at the
        width of inputs and of four directions (write and read, forwards and backwards).
        """
        states = 2 * self.inner_size * self.state_size
        convolved = (self.convolution - 1) * (self.inner_size + 4 * self.state_size)
        return self.num_hidden_layers * (states + convolved)
