"""Nyström attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.nystrom.mechanism import Mechanism

EXAMPLES = {"nystrom-m8": {"kind": "nystrom", "landmarks": 8}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return the product of three dense matrices and the values, over the real tokens of each row.

    Args:
        mechanism: gives the number of landmarks and of iterations.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d], zeros at padding.

    Source:
        Xiong et al. 2021, equations 13 and 14.
    """
    output = torch.zeros_like(value)
    for row, head in torch.cartesian_prod(torch.arange(query.shape[0]), torch.arange(query.shape[1])).tolist():
        real = attention_mask[row].nonzero().squeeze(-1)
        if not len(real):
            continue
        q, k, v = (tensor[row, head, real] for tensor in (query, key, value))
        number = min(mechanism.settings.landmarks, len(real))
        segments = [rank * number // len(real) for rank in range(len(real))]
        members = [[rank for rank, each in enumerate(segments) if each == segment] for segment in range(number)]
        means_of_queries, means_of_keys = (torch.stack([rows[each].mean(0) for each in members]) for rows in (q, k))
        left, middle, right = (
            torch.softmax(of_queries @ of_keys.T / q.shape[-1] ** 0.5, dim=-1)
            for of_queries, of_keys in ((q, means_of_keys), (means_of_queries, means_of_keys), (means_of_queries, k))
        )
        inverse = middle.T / middle.sum(0).max()
        one = torch.eye(number, dtype=middle.dtype)
        for _ in range(mechanism.settings.iterations):
            product = middle @ inverse
            inverse = inverse @ (13 * one - product @ (15 * one - product @ (7 * one - product))) / 4
        output[row, head, real] = left @ inverse @ right @ v
    return output
