"""The encoder for masked language modelling (pretraining and adaptation).

Shapes: B batch, N tokens, V vocabulary.
"""

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.loss import cross_entropy
from lib.backbones.encoder.masked_lm_head import MaskedLMHead
from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel


class EncoderForMaskedLM(EncoderPreTrainedModel):
    """Predict tokens from their context."""

    _tied_weights_keys: ClassVar[dict[str, str]] = {"head.decoder.weight": "encoder.embeddings.word_embeddings.weight"}

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.encoder = EncoderModel(config)
        self.head = MaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the decoder."""
        return self.head.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the decoder."""
        self.head.decoder = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Return vocabulary scores, or the loss.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            token_type_ids: [B, N], for models with token types.
            labels: token to predict at each position [B, N], -100 = none.
            num_items_in_batch: labelled positions over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of `EncoderModel.forward`.

        Returns:
            Without labels, `logits` [B, N, V]. With labels, `loss` alone: scores exist at labelled positions only,
            and are not kept.
        """
        outputs = self.encoder(input_ids, attention_mask, token_type_ids, **kwargs)
        states, loss, logits = outputs.last_hidden_state, None, None
        if labels is None:
            logits = self.head(states)
        else:
            labelled = labels != -100
            loss = cross_entropy(self.head(states[labelled]), labels[labelled], num_items_in_batch)
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)
