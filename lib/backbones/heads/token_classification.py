"""Classification of tokens on any backbone.

Shapes: B batch, N tokens, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import Labels, TaskModel, cross_entropy, select


class TokenClassification(TaskModel):
    """Predict one of `config.num_labels` classes of each token from its state: dropout and projection, as in BERT."""

    auto_model: ClassVar[str] = "AutoModelForTokenClassification"
    output = TokenClassifierOutput
    labels_tokens = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        self.head = nn.Sequential(
            nn.Dropout(config.classifier_dropout), nn.Linear(config.hidden_size, config.num_labels)
        )
        self.post_init()

    def scores(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return class scores of all tokens [B, N, C]."""
        return self.head(states)

    def loss(self, scores: Tensor, labels: Labels) -> Tensor:
        """Return the cross-entropy at the tokens that have a label; a scalar."""
        return cross_entropy(*select(scores, labels.values, labels.scored), labels.number)


Head = TokenClassification
