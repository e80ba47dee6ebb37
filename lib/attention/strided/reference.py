"""Strided attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.block_sparse.reference import masked_attention
from lib.attention.strided.mechanism import Mechanism

EXAMPLES = {"strided-s18": {"kind": "strided", "stride": 18}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention under the dense mask of nearby tokens and multiples of the stride; see `masked_attention`.

    Args:
        mechanism: gives the stride and the slopes of ALiBi.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Source:
        Child et al. 2019, section 4.3.
    """
    stride = mechanism.settings.stride

    def mask(tokens: int) -> Tensor:
        distances = (torch.arange(tokens)[:, None] - torch.arange(tokens)).abs()
        return ((distances < stride) | (distances % stride == 0))[None]

    return masked_attention(mechanism, query, key, value, attention_mask, mask)
