"""Masked language modelling (pretraining and adaptation) on any backbone.

Shapes: B batch, N tokens, V vocabulary.
"""

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.loss import cross_entropy, select
from lib.backbones.heads.masked_lm_head import MaskedLMHead, VocabularyHead
from lib.backbones.heads.model import TaskModel


class MaskedLM(TaskModel):
    """Predict tokens from their context.

    A backbone's class says in `_tied_weights_keys` what the decoder's weight is tied to, and may have a head of its own
    in `head_class`, made of a configuration.
    """

    head_class: ClassVar[type[VocabularyHead]] = MaskedLMHead

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.head = self.head_class(config)
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
        *,
        labels: Tensor | None = None,
        scored: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Return vocabulary scores, or the loss.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: token to predict at each position [B, N], -100 = none.
            scored: places of labels in the batch laid flat [L], see `lib.data.padding.known_beforehand`.
            num_items_in_batch: labelled positions over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of the backbone's forward pass.

        Returns:
            Without labels, `logits` [B, N, V]. With labels, `loss` alone: scores exist at labelled positions only,
            and are not kept.
        """
        outputs = self.base_model(input_ids, attention_mask, **kwargs)
        states, loss, logits = outputs.last_hidden_state, None, None
        if labels is None:
            logits = self.head(states)
        else:
            states_of_labels, labels = select(states, labels, scored)
            loss = cross_entropy(self.head(states_of_labels), labels, num_items_in_batch)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
