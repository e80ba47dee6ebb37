"""Linformer, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.linformer.mechanism import Mechanism

EXAMPLES = {"linformer": {"kind": "linformer", "rank": 6, "length": 64}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return softmax(q (E k)^T / sqrt(d)) E v over the real tokens of each row, zeros at padding.

    Args:
        mechanism: gives the shares E, transposed.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Wang et al. 2020, equation 7.
    """
    output = torch.zeros_like(value)
    for row, mask in enumerate(attention_mask):
        real = mask.nonzero().squeeze(-1)
        shares = mechanism.shares.detach().double()[: len(real)].T  # [K, n]
        q, k, v = (rows[row][:, real] for rows in (query, key, value))
        output[row][:, real] = torch.softmax(q @ (shares @ k).mT / q.shape[-1] ** 0.5, dim=-1) @ (shares @ v)
    return output
