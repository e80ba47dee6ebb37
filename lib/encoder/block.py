"""One encoder block: self-attention and feed-forward, each followed by a residual sum and a layer norm (BERT).

The block owns projections, rotary positions, dropout and norms; the mechanism is the inner map alone.
Shapes: B batch, H heads, N tokens, d width of a head, D hidden size.
"""

from torch import Tensor, nn
from torch.nn import functional

from lib.attention.registry import build
from lib.core import mechanisms
from lib.encoder.configuration import EncoderConfig
from lib.encoder.positions import rotate


class SelfAttention(nn.Module):
    """Project to queries, keys and values, let the mechanism mix them, project back.

    A mechanism that shares queries and keys gets one projection for both.
    """

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        parameters = mechanisms.parse(config.mechanism)
        self.head_size = config.head_size
        width = config.num_attention_heads * config.head_size
        bias = config.attention_bias
        self.query = nn.Linear(config.hidden_size, width, bias=bias)
        self.key = None if parameters.shares_query_and_key else nn.Linear(config.hidden_size, width, bias=bias)
        self.value = nn.Linear(config.hidden_size, width, bias=bias)
        self.mechanism = build(
            parameters,
            num_heads=config.num_attention_heads,
            head_size=config.head_size,
            layer=layer,
            seed=config.feature_seed,
            dropout=config.attention_dropout,
        )
        self.output = nn.Linear(width, config.hidden_size, bias=bias)

    def forward(self, states: Tensor, attention_mask: Tensor | None, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the attention's output.

        Args:
            states: [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            rotation: cosines and sines [N, d / 2] of rotary positions; None = no rotary positions.

        Returns:
            Output [B, N, D].
        """
        query = self._heads(self.query(states), rotation)
        key = query if self.key is None else self._heads(self.key(states), rotation)
        mixed = self.mechanism(query, key, self._heads(self.value(states)), attention_mask)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _heads(self, projected: Tensor, rotation: tuple[Tensor, Tensor] | None = None) -> Tensor:
        heads = projected.unflatten(2, (-1, self.head_size)).transpose(1, 2)
        return heads if rotation is None else rotate(heads, *rotation)


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network with exact GELU, post-layer-norm."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.attention = SelfAttention(config, layer)
        self.attention_dropout = nn.Dropout(config.attention_output_dropout)
        self.attention_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.output_dropout = nn.Dropout(config.mlp_dropout)
        self.output_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, states: Tensor, attention_mask: Tensor | None, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the block's output [B, N, D]; arguments as those of `SelfAttention.forward`."""
        attended = self.attention_dropout(self.attention(states, attention_mask, rotation))
        states = self.attention_layer_norm(states + attended)
        transformed = self.output_dropout(self.output(functional.gelu(self.intermediate(states))))
        return self.output_layer_norm(states + transformed)
