"""The encoder without a head: embeddings and blocks; and the base of its models.

A block is self-attention and feed-forward, each followed by a residual sum and a layer norm (BERT).
Shapes: B batch, N tokens, D hidden size.
"""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.positions import SINUSOIDAL_BASE, Phases, sinusoids
from lib.backbones.reading import ReadsTokens
from lib.backbones.self_attention import SelfAttention, draw_features


class Embeddings(nn.Module):
    """Sum the embeddings of words, token types (if any) and positions (if learned or sinusoidal), then normalise."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        types = config.type_vocab_size
        self.token_type_embeddings = nn.Embedding(types, config.hidden_size) if types else None
        learned = config.position_embedding_type == "learned"
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size) if learned else None
        sinusoidal = config.position_embedding_type == "sinusoidal"
        self.phases = Phases(config.hidden_size, SINUSOIDAL_BASE) if sinusoidal else None
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, tokens: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Return the input of the first block.

        Args:
            tokens: their numbers [B, N], or word embeddings [B, N, D].
            token_type_ids: [B, N]; None = all of type 0.

        Returns:
            States [B, N, D]. Position 0 is the first token of a row, so padding must follow the text.

        Raises:
            ValueError: the sequence is longer than the learned positions, or the model has no token types.
        """
        states = self.word_embeddings(tokens) if tokens.dim() == 2 else tokens
        length, device = states.shape[1], states.device
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros(states.shape[:2], dtype=torch.long, device=device)
            states = states + self.token_type_embeddings(token_type_ids)
        elif token_type_ids is not None:
            raise ValueError("token_type_ids: the model has none (type_vocab_size = 0). Leave them out.")
        if self.position_embeddings is not None:
            reach = self.position_embeddings.num_embeddings
            if length > reach:
                raise ValueError(f"{length} tokens, but max_position_embeddings is {reach}. Cut the text.")
            states = states + self.position_embeddings.weight[:length]
        elif self.phases is not None:
            states = states + sinusoids(*self.phases(length, device), states.shape[2]).to(states.dtype)
        return self.dropout(self.layer_norm(states))


def self_attention(config: EncoderConfig, layer: int) -> SelfAttention:
    """Return the self-attention of a layer, counted from 0."""
    held = config.parameters.held_mechanisms
    return SelfAttention(
        held[layer % len(held)],
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
        mixed = self.attention.mix(rows, states, attention_mask)
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


class EncoderPreTrainedModel(PreTrainedModel):
    """Base of the encoder's models: configuration, initial weights, saving and loading."""

    config_class = EncoderConfig
    base_model_prefix = "encoder"
    _input_embed_layer = "word_embeddings"
    supports_gradient_checkpointing = True
    _no_split_modules = ("EncoderBlock",)

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Embedding) and not getattr(module.weight, "_is_hf_initialized", False):
            # Scaling keeps the row of the padding zero. Weights from a checkpoint are marked, and stay.
            spread = self.config.embedding_initializer_range or self.config.initializer_range
            module.weight.data *= spread / self.config.initializer_range
        draw_features(module)


class EncoderModel(ReadsTokens, EncoderPreTrainedModel):
    """Map tokens to contextual states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.gradient_checkpointing = False
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderBlock(config, layer) for layer in range(config.num_hidden_layers))
        self.phases = None
        if config.position_embedding_type == "rope":
            stretched = {"factor": config.rope_factor, "original_length": config.rope_original_length}
            base, scale, kind = config.rope_theta, config.rope_scale, config.rope_type
            self.phases = Phases(config.head_size, base, scale, kind=kind, **stretched)
        self.post_init()

    def read(
        self,
        tokens: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutput:
        """Return the states of the last block; see `ReadsTokens.read`.

        Args:
            tokens: their numbers [B, N], or word embeddings [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            token_type_ids: [B, N], for models with type_vocab_size above 0; None = all of type 0.
            output_hidden_states: return the states after the embeddings and after each block, too.
            output_attentions: return the attention weights of each block, too, without dropout. For inspection, since
                `Attention.weights` computes them separately, in far more time and memory than the blocks.

        Returns:
            `last_hidden_state` [B, N, D] and, if asked for, `hidden_states` and `attentions`, the latter [B, H, N, N]
            each.

        Raises:
            ValueError: token types or a length that the model's embeddings do not have.
        """
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = self.embeddings(tokens, token_type_ids)
        rotation = torch.stack(self.phases(states.shape[1], states.device), dim=-1) if self.phases else None
        # Checked once, so that no block masks a batch without padding. On a GPU this would synchronise: see
        # `known_beforehand`.
        if attention_mask is not None and attention_mask.device.type == "cpu" and attention_mask.all():
            attention_mask = None
        if attention_mask is not None:
            # Once, as a caller's `inputs_embeds` may hold anything there; blocks make finite numbers of finite ones.
            attention_mask = attention_mask.bool()
            states = states.masked_fill(~attention_mask[:, :, None], 0)
        history, attentions = [states], []
        block: Any
        for block in self.layers:
            if output_attentions:
                attentions.append(block.attention.weights(states, attention_mask, rotation))
            if self.gradient_checkpointing and self.training:
                states = self._gradient_checkpointing_func(block.__call__, states, attention_mask, rotation, True)
            else:
                states = block(states, attention_mask, rotation)
            if output_hidden_states:
                history.append(states)
        return BaseModelOutput(
            last_hidden_state=states,
            hidden_states=tuple(history) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights; what is not attention in a block counts as feed-forward."""
    return {
        "embeddings": [backbone.embeddings],
        "feed_forward": list(backbone.layers),
        "attention": [block.attention for block in backbone.layers],
    }


Model = EncoderModel
