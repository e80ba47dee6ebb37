"""Exact attention, dense and in float64, one head at a time: for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.sdpa.mechanism import Mechanism

EXAMPLES = {
    "sdpa-native": {"kind": "sdpa", "use_native_sdpa": True},
    "sdpa-naive": {"kind": "sdpa", "use_native_sdpa": False},
}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v over the real tokens of each row, zeros at padding.

    Args:
        mechanism: gives the slopes of ALiBi, if any; exact attention draws nothing.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Vaswani et al. 2017, equation 1; Press et al. 2022 (ALiBi), section 3, with distances to both sides.
    """
    slopes = mechanism.slopes(query.device)
    output = torch.zeros_like(value)
    for row, head in torch.cartesian_prod(torch.arange(query.shape[0]), torch.arange(query.shape[1])).tolist():
        real = attention_mask[row].nonzero().squeeze(-1)
        q, k, v = (tensor[row, head, real] for tensor in (query, key, value))
        scores = q @ k.T / q.shape[-1] ** 0.5
        if slopes is not None:
            scores = scores - slopes[head] * (real[:, None] - real).abs()
        kernel = torch.exp(scores)
        output[row, head, real] = (kernel @ v) / kernel.sum(-1, keepdim=True)
    return output
