"""Attention within a window, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.block_sparse.reference import masked_attention
from lib.attention.window.mechanism import Mechanism

EXAMPLES = {
    "window-w8": {"kind": "window", "width": 8},
    "window-w40-g3-d2": {"kind": "window", "width": 40, "global_tokens": 3, "dilation": 2},
}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention under the dense mask of the windows and the global tokens; see `masked_attention`.

    Args:
        mechanism: gives the settings and the slopes of ALiBi.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Source:
        Beltagy et al. 2020, section 3.1 and figure 2.
    """
    settings = mechanism.settings

    def mask(tokens: int) -> Tensor:
        ranks = torch.arange(tokens)
        distances = (ranks[:, None] - ranks).abs()
        near = (distances % settings.dilation == 0) & (distances // settings.dilation <= settings.width // 2)
        few = ranks < settings.global_tokens
        return (near | few | few[:, None])[None]

    return masked_attention(mechanism, query, key, value, attention_mask, mask)
