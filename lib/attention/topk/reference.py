"""Top-k attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.topk.mechanism import Mechanism

EXAMPLES = {"topk-k5": {"kind": "topk", "keys": 5}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return softmax over each query's highest scores, of all real keys sorted, zeros at padding.

    Args:
        mechanism: gives the number of keys and the slopes of ALiBi, if any.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Gupta et al. 2021, section 2.
    """
    slopes = mechanism.slopes(query.device)
    output = torch.zeros_like(value)
    for row, head in torch.cartesian_prod(torch.arange(query.shape[0]), torch.arange(query.shape[1])).tolist():
        real = attention_mask[row].nonzero().squeeze(-1)
        q, k, v = (tensor[row, head, real] for tensor in (query, key, value))
        scores = q @ k.T / q.shape[-1] ** 0.5
        if slopes is not None:
            scores = scores - slopes[head] * (real[:, None] - real).abs()
        best = scores.detach().float().sort(descending=True, stable=True).indices[:, : mechanism.settings.keys]
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
        output[row, head, real] = scores.masked_fill(~chosen, float("-inf")).softmax(-1) @ v
    return output
