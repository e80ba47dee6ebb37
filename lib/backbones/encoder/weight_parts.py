"""Which modules of the encoder make which part of its weights; see `lib.training.record.count_parameters`."""

from torch import nn
from transformers import PreTrainedModel


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part: the attention module of a block, and the block for everything else."""
    return {
        "embeddings": [backbone.embeddings],
        "feed_forward": list(backbone.layers),
        "attention": [block.attention for block in backbone.layers],
    }
