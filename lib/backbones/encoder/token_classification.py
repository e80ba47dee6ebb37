"""The encoder for classification of tokens. To be replaced.

Shapes: B batch, N tokens, C classes.
"""

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.loss import cross_entropy
from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel


class EncoderForTokenClassification(EncoderPreTrainedModel):
    """Tell the class of each token, one of `config.num_labels`."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        self.encoder = EncoderModel(config)
        self.head = nn.Sequential(
            nn.Dropout(config.classifier_dropout), nn.Linear(config.hidden_size, config.num_labels)
        )
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Return class scores [B, N, C], and the loss if there are labels [B, N] (-100 = none)."""
        outputs = self.encoder(input_ids, attention_mask, token_type_ids, **kwargs)
        logits = self.head(outputs.last_hidden_state)
        loss = None if labels is None else cross_entropy(logits.flatten(0, 1), labels.flatten(), num_items_in_batch)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)
