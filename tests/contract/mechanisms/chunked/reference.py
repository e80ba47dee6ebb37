"""Dense truth of attention within chunks."""

import torch
from torch import Tensor

from lib.attention.block_sparse.reference import masked_attention

EXAMPLES = {"chunked": {"kind": "chunked"}}


def reference(mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention under a dense mask of blocks on the diagonal and below it."""

    def mask(tokens: int) -> Tensor:
        chunk = torch.arange(tokens) // mechanism.settings.size
        before = chunk[:, None] - chunk
        return ((before >= 0) & (before <= 1))[None]

    return masked_attention(mechanism, query, key, value, attention_mask, mask)
