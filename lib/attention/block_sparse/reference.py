"""Softmax attention under a dense mask, in float64: for tests of block-sparse mechanisms. No run uses it."""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.attention.contract import Attention


def masked_attention(
    mechanism: Attention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    mask: Callable[[int], Tensor],
) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v over the real tokens that each real token sees, zeros at padding.

    Args:
        mechanism: gives the slopes of ALiBi, if any.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.
        mask: returns for n real tokens which of them (last dimension) each one sees, [H or 1, n, n].

    Returns:
        [B, H, N, d].
    """
    slopes = mechanism.slopes(query.device)
    output = torch.zeros_like(value)
    for row in range(query.shape[0]):
        real = attention_mask[row].nonzero().squeeze(-1)
        q, k, v = (tensor[row, :, real] for tensor in (query, key, value))  # [H, n, d]
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if slopes is not None:
            scores = scores - slopes[:, None, None] * (real[:, None] - real).abs()
        scores = scores.masked_fill(~mask(len(real)).to(scores.device), float("-inf"))
        output[row, :, real] = scores.softmax(-1) @ v
    return output
