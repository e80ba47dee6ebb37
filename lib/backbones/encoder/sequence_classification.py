"""The encoder for classification of whole documents (fine-tuning).

Shapes: B batch, N tokens, C classes.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.encoder.classification_head import classification_head
from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.loss import cross_entropy
from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel
from lib.backbones.encoder.pooling import pooling
from lib.core.errors import ConfigError


class EncoderForSequenceClassification(EncoderPreTrainedModel):
    """Tell the class of a document, one of `config.num_labels`.

    Raises:
        ConfigError: pooling, head style or problem type are not available.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        if config.problem_type not in (None, "single_label_classification"):
            raise ConfigError(
                f"problem_type = '{config.problem_type}' is not available. Use single_label_classification, or leave "
                "it out."
            )
        self.encoder = EncoderModel(config)
        self.pool = pooling(config.classifier_pooling, config.pooling_step)
        self.head = classification_head(config)
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
    ) -> SequenceClassifierOutput:
        """Return class scores, and the loss if there are labels.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            token_type_ids: [B, N], for models with token types.
            labels: class of each document [B].
            num_items_in_batch: documents over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of `EncoderModel.forward`.

        Returns:
            `logits` [B, C] and, with labels, `loss`.
        """
        outputs = self.encoder(input_ids, attention_mask, token_type_ids, **kwargs)
        states = outputs.last_hidden_state
        if attention_mask is None:
            attention_mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        logits = self.head(self.pool(states, attention_mask.bool()))
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)
