"""Nyström attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.nystrom.mechanism import Mechanism
from lib.attention.reference import text_by_text

EXAMPLES = {"nystrom-m8": {"kind": "nystrom", "landmarks": 8}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return the product of three dense matrices and the values; see `text_by_text`.

    Source:
        Xiong et al. 2021, equations 13 and 14.
    """
    length, scale = query.shape[1], query.shape[-1] ** -0.5
    number = min(mechanism.settings.landmarks, length)
    segments = [rank * number // length for rank in range(length)]
    members = [[rank for rank, each in enumerate(segments) if each == segment] for segment in range(number)]
    means_of_queries, means_of_keys = (
        torch.stack([rows[:, each].mean(1) for each in members], dim=1) for rows in (query, key)
    )
    left, middle, right = (
        torch.softmax(of_queries @ of_keys.mT * scale, dim=-1)
        for of_queries, of_keys in ((query, means_of_keys), (means_of_queries, means_of_keys), (means_of_queries, key))
    )
    inverse = middle.mT / middle.sum(1).amax(-1)[:, None, None]
    one = torch.eye(number, dtype=middle.dtype)
    for _ in range(mechanism.settings.iterations):
        product = middle @ inverse
        inverse = inverse @ (13 * one - product @ (15 * one - product @ (7 * one - product))) / 4
    return left @ inverse @ right @ value
