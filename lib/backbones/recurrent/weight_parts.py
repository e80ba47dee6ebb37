"""Which modules of the recurrent encoder make which part of its weights; see `lib.training.record.count_parameters`."""

from torch import nn
from transformers import PreTrainedModel


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part."""
    return {"embeddings": [backbone.embeddings], "recurrence": list(backbone.layers)}
