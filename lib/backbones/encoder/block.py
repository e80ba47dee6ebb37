"""One encoder block: self-attention and feed-forward, each followed by a residual sum and a layer norm (BERT).

The block has projections, rotary positions, dropout and norms; the mechanism only maps queries, keys and values.
Shapes: B batch, H heads, N tokens, d width of a head, D hidden size.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.contract import build, for_every_head
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.positions import alibi_slopes, rotate


class SelfAttention(nn.Module):
    """Project to queries, keys and values, let the mechanism mix them, project back.

    A mechanism that shares queries and keys gets one projection for both. Keys and values may have fewer heads than
    queries (Ainslie et al. 2023, "GQA"), and may be projected from a narrow latent that both share (DeepSeek-AI 2024,
    "DeepSeek-V2", section 2.1.2; here rotary positions turn the whole key, since nothing is cached).
    """

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        parameters = config.mechanism_of(layer)
        self.head_size = config.head_size
        width = config.num_attention_heads * config.head_size
        width_of_keys = (config.num_key_value_heads or config.num_attention_heads) * config.head_size
        bias = config.attention_bias
        alibi = config.position_embedding_type == "alibi"
        self.query = nn.Linear(config.hidden_size, width, bias=bias)
        self.latent = nn.Linear(config.hidden_size, config.kv_rank, bias=False) if config.kv_rank else None
        source = config.kv_rank or config.hidden_size
        self.key = None if parameters.shares_query_and_key else nn.Linear(source, width_of_keys, bias=bias)
        self.value = nn.Linear(source, width_of_keys, bias=bias)
        self.mechanism = build(
            parameters,
            num_heads=config.num_attention_heads,
            head_size=config.head_size,
            layer=layer,
            seed=config.feature_seed,
            dropout=config.attention_dropout,
            slopes=alibi_slopes(config.num_attention_heads) if alibi else None,
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
        place = states.device.type
        if torch.is_autocast_enabled(place):
            states = states.to(torch.get_autocast_dtype(place))  # converts once, not in each projection
        latent = self._latent(states)
        query, key = self._queries_and_keys(states, latent, rotation)
        value = for_every_head(query, self._heads(self.value(latent)))
        mixed = self.mechanism(query, key, value, attention_mask)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def weights(self, states: Tensor, attention_mask: Tensor | None, rotation: tuple[Tensor, Tensor] | None) -> Tensor:
        """Return the attention weights [B, H, N, N], see `Attention.weights`; the arguments are those of `forward`."""
        query, key = self._queries_and_keys(states, self._latent(states), rotation)
        return self.mechanism.weights(query, key, attention_mask)

    def _latent(self, states: Tensor) -> Tensor:
        """Return the input of the projections of keys and values."""
        return states if self.latent is None else self.latent(states)

    def _queries_and_keys(
        self, states: Tensor, latent: Tensor, rotation: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        query = self._heads(self.query(states), rotation)
        return query, query if self.key is None else for_every_head(query, self._heads(self.key(latent), rotation))

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

    def forward(
        self,
        states: Tensor,
        attention_mask: Tensor | None,
        rotation: tuple[Tensor, Tensor] | None,
        checkpointed: bool = False,
    ) -> Tensor:
        """Return the block's output [B, N, D].

        The first arguments are those of `SelfAttention.forward`; with `checkpointed`, the backward pass computes the
        whole block again, so nothing in it needs to be recomputed separately.
        """
        attended = self.attention_dropout(self.attention(states, attention_mask, rotation))
        states = self.attention_layer_norm(states + attended)
        expanded = self.intermediate(states)
        activated = functional.gelu(expanded)
        with nullcontext() if checkpointed else _recomputed(activated, functional.gelu, expanded):
            transformed = self.output(activated)
        return self.output_layer_norm(states + self.output_dropout(transformed))


def _recomputed(result: Tensor, function: Callable[[Tensor], Tensor], argument: Tensor) -> AbstractContextManager:
    """Save memory for the backward pass: store `argument` instead of `result`, and compute `function` of it again.

    Otherwise the widest tensor of a block would be stored twice, before and after a cheap function.
    """
    storage, argument = result.untyped_storage().data_ptr(), argument.detach()

    def pack(tensor: Tensor) -> Tensor | torch.Size:
        return tensor.shape if tensor.untyped_storage().data_ptr() == storage else tensor

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        with torch.no_grad():
            return function(argument).view(packed)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
