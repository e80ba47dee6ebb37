"""Classification of whole documents (fine-tuning) on any backbone.

Shapes: B batch, N tokens, C classes.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.classification_head import classification_head
from lib.backbones.heads.loss import cross_entropy
from lib.backbones.heads.model import TaskModel
from lib.backbones.heads.pooling import pooling
from lib.core.errors import ConfigError


class SequenceClassification(TaskModel):
    """Tell the class of a document, one of `config.num_labels`.

    Raises:
        ConfigError: pooling, head style or problem type are not available.
    """

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        if config.problem_type not in (None, "single_label_classification"):
            raise ConfigError(
                f"problem_type = '{config.problem_type}' is not available. Use single_label_classification, or leave "
                "it out."
            )
        self.pool = pooling(config.classifier_pooling, config.pooling_step)
        self.head = classification_head(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Return class scores, and the loss if there are labels.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: class of each document [B].
            num_items_in_batch: documents over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of the backbone's forward pass.

        Returns:
            `logits` [B, C] and, with labels, `loss`.
        """
        outputs = self.base_model(input_ids, attention_mask, **kwargs)
        states = outputs.last_hidden_state
        if attention_mask is None:
            attention_mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        logits = self.head(self.pool(states, attention_mask.bool()))
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
