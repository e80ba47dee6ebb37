"""The query and key projections of the encoder, and its attention maps; see `lib.backbones.projections`."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.backbones.projections import AttentionLayer


def attention_layers(model: PreTrainedModel) -> list[AttentionLayer]:
    """Return the attention layers of a model, from the lowest."""
    encoder, frequencies = model.base_model, None
    if encoder.phases is not None:
        frequencies = encoder.phases.scale * encoder.phases.frequencies(torch.device("cpu"))
    parts = [block.attention for block in encoder.layers]
    return [AttentionLayer(part.query, part.key, part.head_size, frequencies, neighbours=True) for part in parts]


def attention_maps(model: PreTrainedModel, ids: Tensor) -> list[Tensor]:
    """Return the attention weights of each layer [H, N, N] on one document [1, N]."""
    return [maps[0] for maps in model.base_model(input_ids=ids, output_attentions=True).attentions]
