"""An encoder-decoder of transformers without a head, and the base of its models.

Shapes: B batch, N tokens read, T tokens written, D hidden size, V vocabulary.
"""

from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from transformers import Cache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from lib.backbones.architecture import ArchitecturePreTrainedModel
from lib.backbones.reading import ReadsTokens
from studies.hate_speech.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig


class EncoderDecoderPreTrainedModel(ArchitecturePreTrainedModel):
    """Base of the models around an encoder-decoder, whose two parts share the word embeddings."""

    config_class = EncoderDecoderBackboneConfig
    base_model_prefix = "encoder_decoder"


class EncoderDecoderModel(ReadsTokens, EncoderDecoderPreTrainedModel):
    """Map tokens to states by the encoder of `inner`, and these to scores of the tokens to write by its decoder.

    Scores come from the word embeddings, as in T5, or from a matrix of their own, `lm_head`, as in T5 1.1 and FLAN-T5.
    That matrix is kept here: transformers 5 ties it to the embeddings in every model that it makes.
    """

    def __init__(self, config: EncoderDecoderBackboneConfig) -> None:
        super().__init__(config)
        architecture = config.inner()
        # Not imported by name above: `lib` registers every model with AutoModel at its first import, this one included.
        self.inner: PreTrainedModel = transformers.AutoModel.from_config(
            architecture, attn_implementation=config._attn_implementation
        )
        # The two go together: only scores from embeddings, whose variance is 1, are scaled.
        self.lm_head = (
            None
            if architecture.scale_decoder_outputs
            else nn.Linear(architecture.d_model, architecture.vocab_size, bias=False)
        )
        self.post_init()

    @property
    def embeddings(self) -> nn.Module:
        """The word embeddings."""
        return self.get_input_embeddings()

    @property
    def layers(self) -> nn.ModuleList:
        """The blocks of the encoder."""
        return self.inner.encoder.block

    def read(self, tokens: Tensor, attention_mask: Tensor | None, **kwargs: Any) -> BaseModelOutput:
        """Return the states of the encoder's last layer; padding may be on either side. See `ReadsTokens.read`."""
        states = self.first_states(tokens, attention_mask)
        return self.inner.encoder(inputs_embeds=states, attention_mask=attention_mask, **kwargs)

    def decode(
        self,
        ids: Tensor,
        states: Tensor,
        attention_mask: Tensor | None = None,
        *,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
    ) -> Seq2SeqLMOutput:
        """Return the scores of the token after each of `ids`.

        Args:
            ids: tokens written so far, the start token first; with a cache, those that are not in it yet [B, T].
            states: states of the tokens that were read [B, N, D].
            attention_mask: [B, N], 1 = real token; None = all real.
            past_key_values: cache of the tokens written before.
            use_cache: return one.

        Returns:
            `logits` [B, T, V] in float32, whatever the precision: classes are told by differences of their sums.
        """
        outputs = self.inner.decoder(
            input_ids=ids,
            encoder_hidden_states=states,
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
        )
        last = outputs.last_hidden_state.float()
        with torch.autocast(last.device.type, enabled=False):
            if self.lm_head is None:
                logits = functional.linear(last * last.shape[-1] ** -0.5, self.inner.get_input_embeddings().weight)
            else:
                logits = self.lm_head(last)
        return Seq2SeqLMOutput(logits=logits, past_key_values=outputs.past_key_values)


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part of the weights.

    A block of T5 is a list: attention to its own tokens, in the decoder attention to the encoder, and last what
    treats each token alone. Biases of distances belong to attention. Scores with a matrix of their own are a head.
    """
    blocks = [block.layer for stack in (backbone.inner.encoder, backbone.inner.decoder) for block in stack.block]
    return {
        "embeddings": [backbone.embeddings],
        "feed_forward": [block[-1] for block in blocks],
        "attention": [layer for block in blocks for layer in block[:-1]],
        "head": [backbone.lm_head] if backbone.lm_head is not None else [],
    }


Model = EncoderDecoderModel
