"""What every attention mechanism owes to the layer that holds it, to padding and to randomness.

Shapes: B batch, H heads, N tokens, d head width.
"""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from lib.core.kinds import MechanismParameters


class Attention(nn.Module, ABC):
    """Base of every mechanism; a mechanism defines `attend`.

    Padding is exact, wherever it stands in a row: neither its amount nor its content (not even inf or nan)
    reaches an output at a real token. Outputs at padding are zeros, and so are the gradients of its inputs.
    Scores are scaled by 1/sqrt(d).

    Args:
        parameters: typed parameters of the mechanism's kind.
        num_heads: H.
        head_size: d.
        layer: index of the layer, part of the key of every random draw.
        seed: seed of the run, the other part.
        dropout: probability of dropping an attention weight in training.

    Raises:
        ConfigError: the mechanism cannot honour its settings.
    """

    def __init__(
        self,
        *,
        parameters: MechanismParameters,
        num_heads: int,
        head_size: int,
        layer: int,
        seed: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.settings = parameters  # a module has a method `parameters`
        self.num_heads = num_heads
        self.head_size = head_size
        self.layer = layer
        self.seed = seed
        self.dropout = dropout
        self.step = 0

    def forward(self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Attend from every query to the real keys of its row.

        Args:
            query: [B, H, N, d].
            key: [B, H, N, d]; the very tensor `query` where the mechanism shares the two.
            value: [B, H, N, d].
            attention_mask: [B, N], 1 = real token; None = all real.

        Returns:
            [B, H, N, d] in the type of `value`, zeros at padding.

        Raises:
            ValueError: the mask is not [B, N], or the key is another tensor than the query it should be.
        """
        if self.settings.shares_query_and_key and key is not query:
            raise ValueError(
                f"{self.settings.kind} has one projection for both: pass the same tensor as query and key."
            )
        if attention_mask is None:
            return self.attend(query, key, value, None).to(value.dtype)
        expected = (query.shape[0], query.shape[2])
        if attention_mask.shape != expected:
            raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}; expected [B, N] = {expected}.")
        real = attention_mask.bool()
        padding = ~real[:, None, :, None]
        # Filling, unlike multiplying, also stops inf and nan, and its gradient at padding is zero.
        clean = query.masked_fill(padding, 0)
        key = clean if key is query else key.masked_fill(padding, 0)
        output = self.attend(clean, key, value.masked_fill(padding, 0), real)
        return output.masked_fill(padding, 0).to(value.dtype)

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """Do the mechanism's arithmetic.

        Args:
            query: [B, H, N, d], zeros at padding; likewise `key` and `value`.
            key: as `query`.
            value: as `query`.
            real: [B, N], true at real tokens; None = all real. A row may be without any.

        Returns:
            [B, H, N, d], finite; what stands at padding is discarded.
        """

    def set_step(self, step: int) -> None:
        """Tell the optimiser step that draws in training are keyed by."""
        self.step = step

    def reset_features(self) -> None:
        """Draw the persistent random features, if the mechanism has any; part of weight initialisation."""


def set_step(model: nn.Module, step: int) -> None:
    """Tell the optimiser step to every mechanism in `model`."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.set_step(step)
