"""Which modules make which part of the weights; see `lib.training.record.count_parameters`."""

from torch import nn
from transformers import PreTrainedModel

from lib.backbones.settings import BACKBONES


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part: those of the encoder of the segments."""
    kind = backbone.config.parameters.encoder.kind
    return BACKBONES.load(kind, "weight_parts").weight_parts(backbone.encoder.base_model)
