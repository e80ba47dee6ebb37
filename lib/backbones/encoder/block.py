"""One encoder block: self-attention and feed-forward, each followed by a residual sum and a layer norm (BERT).

Shapes: B batch, H heads, N tokens, d width of a head, D hidden size.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.self_attention import SelfAttention


def self_attention(config: EncoderConfig, layer: int) -> SelfAttention:
    """Return the self-attention of a layer, counted from 0."""
    return SelfAttention(
        config.mechanism_of(layer),
        layer,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        head_size=config.head_size,
        key_heads=config.num_key_value_heads,
        kv_rank=config.kv_rank,
        bias=config.attention_bias,
        seed=config.feature_seed,
        dropout=config.attention_dropout,
        alibi=config.position_embedding_type == "alibi",
    )


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network with exact GELU, post-layer-norm."""

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.attention = self_attention(config, layer)
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
