"""Shared by the references of all mechanisms: dense attention in float64, text by text, for tests. No run uses it.

Shapes: B batch, H heads, N tokens, n real tokens of a text, d head width.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from lib.attention.contract import Attention


def text_by_text(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a reference for batches, made of a function that attends within one text without padding.

    Args:
        attend: function of the mechanism, of queries, keys and values [H, n, d], and of the scores
            q k^T / sqrt(d), lowered by ALiBi if the mechanism has slopes [H, n, n]. It returns the output [H, n, d].

    Returns:
        Function of the mechanism, of queries, keys and values [B, H, N, d] in float64, and of a mask [B, N], 1 = real
        token. It returns the output [B, H, N, d], zeros at padding.
    """

    @functools.wraps(attend)
    def reference(mechanism: Attention, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
        slopes, output = mechanism.slopes(query.device), torch.zeros_like(value)
        for row, mask in enumerate(attention_mask):
            real = mask.nonzero().squeeze(-1)
            if not len(real):
                continue
            q, k, v = (rows[row][:, real] for rows in (query, key, value))
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if slopes is not None:
                scores = scores - slopes[:, None, None] * (real[:, None] - real).abs()
            output[row][:, real] = attend(mechanism, q, k, v, scores)
        return output

    return reference


def softmax_where(seen: Tensor, scores: Tensor, value: Tensor) -> Tensor:
    """Return softmax attention [H, n, d] to the tokens that each one sees [H or 1, n, n], by scores [H, n, n]."""
    return scores.masked_fill(~seen.to(scores.device), float("-inf")).softmax(-1) @ value
