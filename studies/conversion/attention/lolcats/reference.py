"""LoLCATs' attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from studies.conversion.attention.lolcats.mechanism import Mechanism

EXAMPLES = {
    "lolcats": {"kind": "lolcats", "block_size": 3, "window_blocks": 3},
    "lolcats-b7-w1": {"kind": "lolcats", "block_size": 7, "window_blocks": 1},
}


def features(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return the softmax of [Wx, -Wx] [H, n, 2 d] for `rows` x [H, n, d], by each head's W^T [H, d, d]."""
    mapped = torch.einsum("hnd,hde->hne", rows, matrix.double())
    return torch.cat([mapped, -mapped], dim=-1).softmax(-1)


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention by the weights of all pairs of real tokens, zeros at padding.

    Args:
        mechanism: gives the settings, the feature maps and the factors of the window.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Zhang et al. 2024, "LoLCATs".
    """
    settings = mechanism.settings
    factor = torch.sigmoid(mechanism.factor.double())[:, None, None]
    output = torch.zeros_like(value)
    for row, mask in enumerate(attention_mask):
        real = mask.nonzero().squeeze(-1)
        if not len(real):
            continue
        q, k, v = (rows[row][:, real] for rows in (query, key, value))
        block = torch.arange(len(real)) // settings.block_size
        near = (block[:, None] - block).abs() <= settings.window_blocks // 2
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~near, float("-inf"))
        kernel = features(q, mechanism.of_queries.matrix) @ features(k, mechanism.of_keys.matrix).mT
        weights = torch.where(near, factor * torch.exp(scores - scores.amax(-1, keepdim=True)), kernel)
        output[row][:, real] = weights @ v / weights.sum(-1, keepdim=True)
    return output
