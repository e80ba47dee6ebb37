"""Settings of the recurrent encoder. Names are those of the attention encoder where both have one."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import VOCABULARY, OwnSettings
from lib.core.settings import Few, Probability, check


class Settings(OwnSettings):
    """Recurrent encoder: each field is the field of the same name in `RecurrentConfig`."""

    decisive: ClassVar[tuple[str, ...]] = ("cell", "hidden_size", "num_hidden_layers", "bidirectional")
    starts_from_word_vectors: ClassVar[bool] = True

    kind: Literal["recurrent"] = "recurrent"
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    """Recurrent cell: `rnn` (tanh), `lstm` or `gru`, as in torch."""
    num_hidden_layers: Few = 2
    """Layers."""
    # Left out where it is the default, so that the settings of earlier runs stay as they were.
    bidirectional: bool = Field(True, exclude_if=lambda value: value)
    """Each layer reads in both directions, with half the width for each; false: only from the first token to the last,
    with all of it."""
    layer_dropout: Probability = 0.1
    """Dropout on the states between layers."""

    @check
    def _directions_share_the_width(self) -> Iterator[str]:
        if self.bidirectional and self.hidden_size % 2:
            yield f"hidden_size = {self.hidden_size} is odd, but each direction takes half of it. Choose an even one"

    @property
    def family(self) -> str:
        """The cell."""
        return self.cell

    @property
    def looks_ahead(self) -> bool:
        """See `BackboneSettings.looks_ahead`."""
        return self.bidirectional

    @property
    def linear_layers(self) -> frozenset[str]:
        """See `BackboneSettings.linear_layers`: its cells are no linear layers."""
        return frozenset()

    def products_per_token(self, tokens: int, predicted_share: float) -> float:
        """See `BackboneSettings.products_per_token`."""
        gates = {"rnn": 1, "gru": 3, "lstm": 4}[self.cell]
        directions = 1 + self.bidirectional
        width = self.hidden_size // directions
        layer = directions * gates * width * (self.hidden_size + width)
        return self.num_hidden_layers * layer + predicted_share * self.hidden_size * VOCABULARY

    def state_numbers(self, tokens: int) -> int:
        """Return the states of all layers, the same at every length; LSTM has a hidden and a cell state.

        Both directions together have the hidden size.
        """
        return self.num_hidden_layers * self.hidden_size * (2 if self.cell == "lstm" else 1)
