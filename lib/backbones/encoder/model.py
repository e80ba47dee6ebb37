"""The encoder without a head, and the base of its models.

Shapes: B batch, N tokens, D hidden size.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.encoder.block import EncoderBlock
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.embeddings import Embeddings
from lib.backbones.positions import Phases
from lib.backbones.self_attention import draw_features


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


class EncoderModel(EncoderPreTrainedModel):
    """Map tokens to contextual states."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.gradient_checkpointing = False
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderBlock(config, layer) for layer in range(config.num_hidden_layers))
        rotary = config.position_embedding_type == "rope"
        self.phases = (
            Phases(
                config.head_size,
                config.rope_theta,
                config.rope_scale,
                kind=config.rope_type,
                factor=config.rope_factor,
                original_length=config.rope_original_length,
            )
            if rotary
            else None
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutput:
        """Return the states of the last block.

        Padding never changes the states of real tokens.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            token_type_ids: [B, N], for models with type_vocab_size above 0; None = all of type 0.
            inputs_embeds: word embeddings to use instead of `input_ids` [B, N, D].
            output_hidden_states: return the states after the embeddings and after each block, too.
            output_attentions: return the attention weights of each block, too, without dropout. For inspection, since
                `Attention.weights` computes them separately, in far more time and memory than the blocks.

        Returns:
            `last_hidden_state` [B, N, D] and, if asked for, `hidden_states` and `attentions`, the latter [B, H, N, N]
            each.

        Raises:
            ValueError: not exactly one of `input_ids` and `inputs_embeds`; token types or a length that the model's
                embeddings do not have.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected exactly one of input_ids and inputs_embeds.")
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = self.embeddings(input_ids, token_type_ids, inputs_embeds)
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
