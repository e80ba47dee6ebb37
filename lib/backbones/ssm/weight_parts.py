"""Which modules of the state-space encoder make which part of its weights; see `lib.training.record`."""

from torch import nn
from transformers import PreTrainedModel


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part."""
    return {"embeddings": [backbone.embeddings], "state_space": list(backbone.layers)}
