"""Writing of texts by an encoder-decoder.

Shapes: B batch, N tokens read, T tokens written, D hidden size, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.heads.model import TaskModel, cross_entropy
from studies.hate_speech.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig
from studies.hate_speech.backbones.encoder_decoder.model import EncoderDecoderModel, EncoderDecoderPreTrainedModel


class EncoderDecoderForTextToText(TaskModel, EncoderDecoderPreTrainedModel):
    """Write a text about another one; all weights are the backbone's."""

    auto_model = "AutoModelForSeq2SeqLM"
    backbone_class = EncoderDecoderModel

    def __init__(self, config: EncoderDecoderBackboneConfig) -> None:
        super().__init__(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_last_hidden_state: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Return scores of the tokens to write, and the loss if there are labels.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: tokens to write, each from those before it [B, T]; -100 = none, behind the last one.
            num_items_in_batch: labelled tokens over all parts of an accumulated batch; None = those at hand.
            decoder_input_ids: without labels, tokens written so far, the start token first [B, T].
            encoder_last_hidden_state: states of the tokens that were read, if known already [B, N, D].
            past_key_values: cache of the tokens written before.
            use_cache: return one.
            kwargs: further arguments of the encoder's forward pass.

        Returns:
            `logits` [B, T, V], `encoder_last_hidden_state` [B, N, D], with labels `loss`, and the cache if asked for.

        Raises:
            ValueError: not exactly one of `labels` and `decoder_input_ids`.
        """
        if (labels is None) == (decoder_input_ids is None):
            raise ValueError("expected exactly one of labels and decoder_input_ids.")
        states = encoder_last_hidden_state
        if states is None:
            states = self.base_model(input_ids, attention_mask, **kwargs).last_hidden_state
        outputs = self.base_model.decode(
            decoder_input_ids if labels is None else self._behind_start(labels),
            states,
            attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
        )
        outputs.encoder_last_hidden_state = states
        if labels is not None:
            outputs.loss = cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), num_items_in_batch)
        return outputs

    def _behind_start(self, labels: Tensor) -> Tensor:
        """Return the token before each label: the start token, and all labels but the last."""
        start = labels.new_full((len(labels), 1), self.config.start_token_id)
        return torch.cat([start, labels[:, :-1].clamp(min=0)], dim=1)


Head = EncoderDecoderForTextToText
