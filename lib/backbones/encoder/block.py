"""One encoder block: self-attention and feed-forward, each followed by a residual sum and a layer norm (BERT).

The block has projections, rotary positions, dropout and norms; the mechanism only maps queries, keys and values.
Shapes: B batch, H heads, N tokens, d width of a head, D hidden size.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

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

    def forward(self, states: Tensor, attention_mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """Return the attention's output.

        Args:
            states: [B, N, D], finite at padding too.
            attention_mask: [B, N], 1 = real token; None = all real.
            rotation: see `project`.

        Returns:
            Output [B, N, D], finite at padding.
        """
        return self.join(self.mechanism(*self.project(states, rotation), attention_mask, padding_is_finite=True))

    def project(self, states: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values [B, H, N, d]; queries and keys are one tensor if the mechanism shares them.

        Args:
            states: [B, N, D].
            rotation: cosines and sines of rotary positions [N, d / 2, 2]; None = no rotary positions.
        """
        place = states.device.type
        if torch.is_autocast_enabled(place):
            states = states.to(torch.get_autocast_dtype(place))  # converts once, not in each projection
        latent = self._latent(states)
        query, key = self._queries_and_keys(states, latent, rotation)
        return query, key, for_every_head(query, self._heads(self.value(latent)))

    def join(self, mixed: Tensor) -> Tensor:
        """Return the output [B, N, D] from the mechanism's output [B, H, N, d]."""
        return self.output(mixed.transpose(1, 2).flatten(2))

    def weights(self, states: Tensor, attention_mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """Return the attention weights [B, H, N, N], see `Attention.weights`; the arguments are those of `forward`."""
        query, key = self._queries_and_keys(states, self._latent(states), rotation)
        return self.mechanism.weights(query, key, attention_mask)

    def _latent(self, states: Tensor) -> Tensor:
        """Return the input of the projections of keys and values."""
        return states if self.latent is None else self.latent(states)

    def _queries_and_keys(self, states: Tensor, latent: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor]:
        rows = [self._heads(self.query(states))]
        if self.key is not None:
            rows.append(self._heads(self.key(latent)))
        if rotation is not None:
            rows = rotate(rows, rotation)
        query, key = rows[0], rows[-1]
        return query, key if key is query else for_every_head(query, key)

    def _heads(self, projected: Tensor) -> Tensor:
        return projected.unflatten(2, (-1, self.head_size)).transpose(1, 2)


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
        self, states: Tensor, attention_mask: Tensor | None, rotation: Tensor | None, checkpointed: bool = False
    ) -> Tensor:
        """Return the block's output [B, N, D].

        The first arguments are those of `SelfAttention.forward`; with `checkpointed`, the backward pass computes the
        whole block again, so nothing in it needs to be recomputed separately.
        """
        rows = self.attention.project(states, rotation)
        mixed = self.attention.mechanism(*rows, attention_mask, padding_is_finite=True)
        return self.finish(states, mixed, checkpointed)

    def compile(self, **options: Any) -> None:
        """Compile the block, in two pieces if its mechanism cannot be traced; `options` as of `torch.compile`."""
        if self.attention.mechanism.is_traceable:
            return super().compile(**options)
        compiled: Any = functools.partial(torch.compile, **options)
        self.attention.project = compiled(self.attention.project)  # type: ignore[method-assign]
        self.finish = compiled(self.finish)  # type: ignore[method-assign]

    def finish(self, states: Tensor, mixed: Tensor, checkpointed: bool = False) -> Tensor:
        """Return the block's output [B, N, D] from its input `states` and the mechanism's output [B, H, N, d]."""
        attended = self.attention_dropout(self.attention.join(mixed))
        states = self.attention_layer_norm(states + attended)
        expanded = self.intermediate(states)
        activated = functional.gelu(expanded)
        # A compiler makes this choice itself; on a GPU, computing again costs more than it saves.
        kept = checkpointed or torch.compiler.is_compiling() or states.device.type != "cpu"
        with nullcontext() if kept else _recomputed(activated, functional.gelu, expanded):
            transformed = self.output(activated)
        return self.output_layer_norm(states + self.output_dropout(transformed))


def _recomputed(result: Tensor, function: Callable[[Tensor], Tensor], argument: Tensor) -> AbstractContextManager:
    """Save memory for the backward pass: store `argument` instead of `result`, and compute `function` of it again.

    Otherwise the widest tensor of a block would be stored twice, before and after a cheap function.
    """
    # The number of its memory's object, not an address: tensors without data have none.
    storage, argument = result.untyped_storage()._cdata, argument.detach()

    def pack(tensor: Tensor) -> Tensor | torch.Size:
        return tensor.shape if tensor.untyped_storage()._cdata == storage else tensor

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        with torch.no_grad():
            return function(argument).view(packed)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
