"""Which modules of an architecture make which part of its weights; see `lib.training.record.count_parameters`."""

from torch import nn
from transformers import PreTrainedModel


def weight_parts(backbone: PreTrainedModel) -> dict[str, list[nn.Module]]:
    """Return the modules of each part.

    A block has one part in which a token's state reaches another token, which its family names (`Family.attends`), with
    the projections around it; the rest treats each token alone. Tables outside the blocks are embeddings, wherever they
    stand: GPT-2 has positions next to its words, DeBERTa distances next to its blocks.
    """
    attends = backbone.config.family.attends.partition(".")[0]
    inside = {module for block in backbone.layers for module in block.modules()}
    tables = [each for each in backbone.modules() if isinstance(each, nn.Embedding) and each not in inside]
    first = backbone.embeddings
    return {
        "embeddings": [*(first if isinstance(first, nn.ModuleList) else [first]), *tables],
        "feed_forward": list(backbone.layers),
        "attention": [block.get_submodule(attends) for block in backbone.layers],
    }
