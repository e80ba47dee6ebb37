"""Classification of tokens on any backbone.

Shapes: B batch, N tokens, C classes.
"""

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils.generic import can_return_tuple

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import TaskModel, cross_entropy, select


class TokenClassification(TaskModel):
    """Predict one of `config.num_labels` classes of each token from its state: dropout and projection, as in BERT."""

    auto_model: ClassVar[str] = "AutoModelForTokenClassification"

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.head = nn.Sequential(
            nn.Dropout(config.classifier_dropout), nn.Linear(config.hidden_size, config.num_labels)
        )
        self.post_init()

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
    ) -> TokenClassifierOutput:
        """Return class scores of all tokens, and the loss if there are labels.

        Args:
            input_ids: [B, N].
            attention_mask: [B, N], 1 = real token; None = all real.
            labels: class of each token [B, N], -100 = none.
            scored: places of labels in the batch laid flat [L], see `lib.tokens.batches.known_beforehand`.
            num_items_in_batch: labelled tokens over all parts of an accumulated batch; None = those at hand.
            kwargs: further arguments of the backbone's forward pass.

        Returns:
            `logits` [B, N, C] and, with labels, `loss`.
        """
        outputs = self.base_model(input_ids, attention_mask, **kwargs)
        logits, loss = self.head(outputs.last_hidden_state), None
        if labels is not None:
            loss = cross_entropy(*select(logits, labels, scored), num_items_in_batch)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


Head = TokenClassification
