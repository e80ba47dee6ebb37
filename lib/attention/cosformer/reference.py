"""cosFormer, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import math

import torch
from torch import Tensor

from lib.attention.cosformer.mechanism import Mechanism

EXAMPLES = {"cosformer": {"kind": "cosformer", "eps": 1e-2}}  # at 1e-6, gradients by a feature near 0 round to 6e-5


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention by the kernel of all pairs of real tokens, zeros at padding.

    Args:
        mechanism: gives `eps`.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Qin et al. 2022, equation 10, with the row's own number of real tokens in place of M.
    """
    output = torch.zeros_like(value)
    for row, mask in enumerate(attention_mask):
        real = mask.nonzero().squeeze(-1)
        q, k = (torch.clamp(rows[row][:, real], min=0) + mechanism.settings.eps for rows in (query, key))
        places = torch.arange(len(real), dtype=torch.float64)
        kernel = q @ k.mT * torch.cos(math.pi / 2 * (places[:, None] - places) / len(real))  # [H, n, n]
        output[row][:, real] = kernel @ value[row][:, real] / kernel.sum(-1, keepdim=True)
    return output
