"""Which modules of an encoder-decoder make which part of its weights; see `lib.training.record.count_parameters`."""

from torch import nn
from transformers import PreTrainedModel


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part.

    A block of T5 is a list: attention to its own tokens, in the decoder attention to the encoder, and last what
    treats each token alone. Biases of distances belong to attention. Scores with a matrix of their own are a head.
    """
    blocks = [block.layer for stack in (backbone.inner.encoder, backbone.inner.decoder) for block in stack.block]
    return {
        "embeddings": [backbone.embeddings],
        "feed_forward": [block[-1] for block in blocks],
        "attention": [layer for block in blocks for layer in block[:-1]],
        "head": [backbone.lm_head] if backbone.lm_head is not None else [],
    }
