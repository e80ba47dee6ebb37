"""Classification of whole documents by one class or several, or a number for each, on any backbone.

Shapes: B batch, N tokens, D hidden size, C classes.
"""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput

from lib.backbones.configuration import BackboneConfig
from lib.backbones.heads.model import Labels, TaskModel, pooling, squared_error
from lib.core.errors import ConfigError


def classification_head(config: BackboneConfig, vectors: int = 1) -> nn.Sequential:
    """Return the classification head of the style `config.classifier_head`.

    Args:
        config: config of the model; its `num_labels` is the number of classes.
        vectors: number of concatenated vectors of width D that it reads.

    Returns:
        Module that maps [B, vectors * D] to [B, C]: `bert`: dense, tanh, dropout, projection; `roberta`: dropout
        before that, too; `none`: dropout, projection.

    Raises:
        ConfigError: the style is unknown.

    Source:
        Equations 2.13 and 2.14 of the study.
    """
    style, size, read = config.classifier_head, config.hidden_size, vectors * config.hidden_size
    if style not in ("bert", "roberta", "none"):
        raise ConfigError(f"classifier_head = '{style}' is unknown. Use one of: bert, roberta, none.")
    first = [nn.Dropout(config.classifier_dropout)] if style == "roberta" else []
    dense = [] if style == "none" else [nn.Linear(read, size), nn.Tanh()]
    last = nn.Linear(size if dense else read, config.num_labels)
    return nn.Sequential(*first, *dense, nn.Dropout(config.classifier_dropout), last)


class SequenceClassification(TaskModel):
    """Predict the class of a document, one of `config.num_labels`, or several, or a number (`config.problem_type`).

    Raises:
        ConfigError: pooling or head style are not available, or there is not one number but several.
    """

    auto_model: ClassVar[str] = "AutoModelForSequenceClassification"
    output = SequenceClassifierOutput
    may_be_captured = True

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__(config)
        if config.problem_type == "regression" and config.num_labels != 1:
            raise ConfigError(f"num_labels = {config.num_labels}, but regression gives one number. Set it to 1.")
        self.pool = pooling(config.classifier_pooling, config.pooling_step)
        self.head = classification_head(config)
        self.post_init()

    def scores(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return class scores [B, C], or numbers [B, 1]."""
        return self.head(self.pool(states, attention_mask))

    def loss(self, scores: Tensor, labels: Labels) -> Tensor:
        """Return the cross-entropy of scores [B, C], or the squared error of numbers [B, 1], for labels [B]; a scalar.

        Labels of numbers are floats. Those of several classes are [B, C], 1 = the document has the class: then it is
        the mean of the binary cross-entropies of all classes, where weights [C] multiply those of documents that have
        the class (`pos_weight` of torch).
        """
        if self.config.problem_type == "multi_label_classification":
            total = functional.binary_cross_entropy_with_logits(
                scores.float(), labels.values, pos_weight=labels.weights, reduction="sum"
            )
            return total / (labels.values.numel() if labels.number is None else labels.number)
        if self.config.problem_type == "regression":
            return squared_error(scores, labels.values[:, None], labels.number)
        return super().loss(scores, labels)


Head = SequenceClassification
