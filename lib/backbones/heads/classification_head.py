"""From one vector a document to class scores. Knows nothing of masked language modelling."""

from collections.abc import Callable

from torch import nn

from lib.backbones.configuration import BackboneConfig
from lib.core.errors import ConfigError


def classification_head(config: BackboneConfig) -> nn.Sequential:
    """Return the classification head of the style `config.classifier_head`.

    Args:
        config: of the model; its `num_labels` is the number of classes.

    Returns:
        Module that maps [B, D] to [B, num_labels]: `bert`: dense, tanh, dropout, projection; `roberta`: dropout
        before that, too; `none`: dropout, projection.

    Raises:
        ConfigError: there is no such style.

    Source:
        Equations 2.13 and 2.14 of the study.
    """
    size = config.hidden_size

    def dense() -> list[nn.Module]:
        return [nn.Linear(size, size), nn.Tanh()]

    def dropout() -> nn.Module:
        return nn.Dropout(config.classifier_dropout)

    styles: dict[str, Callable[[], list[nn.Module]]] = {
        "bert": lambda: [*dense(), dropout()],
        "roberta": lambda: [dropout(), *dense(), dropout()],
        "none": lambda: [dropout()],
    }
    if config.classifier_head not in styles:
        raise ConfigError(f"classifier_head = '{config.classifier_head}' is unknown. Use one of: {', '.join(styles)}.")
    return nn.Sequential(*styles[config.classifier_head](), nn.Linear(size, config.num_labels))
