"""Softmax attention by one call of torch's fused kernel, which is the fastest way for short texts.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor
from torch.nn import functional

ABSENT = -1e30
"""Added to the scores of keys that are not seen. Finite, so that a query that sees none is never NaN."""


def attend_densely(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real: Tensor | None,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v over the real keys.

    Args:
        query: [B, H, N, d].
        key: as `query`.
        value: as `query`.
        real: [B, N], true at real tokens; None = all real. A row without any sees its padding.
        bias: [B or 1, H or 1, N, N], finite, in the type of `query`; None = no bias.
        dropout: probability of dropping a weight.

    Returns:
        [B, H, N, d].
    """
    mask = bias
    if real is not None:
        # A row without real tokens sees its (zero) padding: no softmax over nothing, whatever the kernel.
        seen = (real | ~real.any(-1, keepdim=True))[:, None, None, :]  # [B, 1, 1, N]
        mask = seen if bias is None else bias.masked_fill(~seen, float("-inf"))
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


def alibi(slopes: Tensor | None, query: Tensor) -> Tensor | None:
    """Return what ALiBi adds to the scores [1, H, N, N], in the type of `query`; None without slopes [H]."""
    if slopes is None:
        return None
    positions = torch.arange(query.shape[2], device=query.device)
    distances = (positions[:, None] - positions).abs()
    return (-slopes[:, None, None] * distances).to(query.dtype)[None]  # without B, the fused kernel gives up
