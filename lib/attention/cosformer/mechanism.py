"""cosFormer by torch's operations, on every device: ReLU features, reweighted by the cosine of the distance.

Linear in N in time and memory; must equal the dense reference of the tests.

Shapes: B batch, H heads, N tokens, d head width.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import Attention, ranks
from lib.attention.cosformer.settings import Settings

FEATURES = {"cpu": 2**17, "gpu": 2**27}
"""Number of features in memory at a time: on a CPU they fit the cache of a core, on a GPU they keep it busy."""


class Mechanism(Attention):
    """Attention with the kernel phi(q_i) . phi(k_j) cos(pi/2 (i - j) / n), phi(x) = max(x, 0) + eps.

    i and j count the real tokens of a row, and n is how many it has, so the farthest two tokens of any text have a
    weight near 0. Kernel values are positive, and are divided by their sum over the keys. Since cos(a - b) =
    cos a cos b + sin a sin b, 2 d features do it, and the sums over keys are one matrix [2 d, d] per head.

    Source:
        Qin et al. 2022, "cosFormer: Rethinking Softmax in Attention", equations 9 to 13. There, n is a maximum set for
        all texts (M), and features have no eps; their code raises sums below 1e-6 to it.
    """

    settings: Settings

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        places, lengths = ranks(real, query)
        angles = places.to(precision) * (math.pi / 2 / lengths.clamp(min=1)[:, None].to(precision))  # [B or 1, N]
        turns = torch.stack([angles.cos(), angles.sin()], -1).expand(len(query), -1, -1)  # [B, N, 2]
        with torch.autocast(query.device.type, enabled=False):
            rows = (each.to(precision) for each in (query, key, value))
            return _Attend.apply(*rows, turns, real, self.settings.eps)


class _Attend(torch.autograd.Function):
    """Sum keys and values to a matrix, and read it by queries, block by block.

    Keeps its arguments and sums for the backward pass, which computes the features again.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, turns: Tensor, real: Tensor | None, eps: float
    ) -> Tensor:
        """Return the output [B, H, N, d].

        Args:
            ctx: autograd's.
            query: [B, H, N, d].
            key: as `query`.
            value: as `query`.
            turns: cosines and sines of the tokens' angles [B, N, 2].
            real: [B, N], true at real tokens; None = all real.
            eps: added to the features.
        """
        queries, keys, values = (rows.flatten(0, 1) for rows in (query, key, value))
        width = queries.shape[-1]
        sums = values.new_zeros(len(values), 2 * width, width)
        totals = values.new_zeros(len(values), 1, 2 * width)
        output, normaliser = torch.empty_like(values), values.new_empty(*values.shape[:-1], 1)
        for part, row, blocks in _blocks(query):
            for block in blocks:
                shown = None if real is None else real[row, block]
                features = _features(keys[part, block], turns[row, block], eps, shown)
                sums[part].baddbmm_(features.mT, values[part, block])
                totals[part] += features.sum(1, keepdim=True)
            for block in blocks:
                features = _features(queries[part, block], turns[row, block], eps)
                divisor = features @ totals[part].mT
                # A row without real tokens has nothing to divide by.
                divisor = divisor if real is None else torch.where(divisor > 0, divisor, 1)
                torch.div(features @ sums[part], divisor, out=output[part, block])
                normaliser[part, block] = divisor
        ctx.save_for_backward(query, key, value, turns, real, output, normaliser, sums, totals)
        ctx.eps = eps
        return output.unflatten(0, query.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value, [B, H, N, d] each."""
        query, key, value, turns, real, output, normaliser, sums, totals = ctx.saved_tensors
        queries, keys, values, gradients = (rows.flatten(0, 1) for rows in (query, key, value, gradient))
        of_queries, of_keys, of_values = (torch.empty_like(rows) for rows in (queries, keys, values))
        with torch.autocast(gradient.device.type, enabled=False):
            for part, row, blocks in _blocks(query):
                of_sums, of_totals = torch.zeros_like(sums[part]), torch.zeros_like(totals[part])
                for block in blocks:
                    features = _features(queries[part, block], turns[row, block], ctx.eps)
                    of_numerators = gradients[part, block] / normaliser[part, block]
                    of_normaliser = -(of_numerators * output[part, block]).sum(-1, keepdim=True)
                    of_sums.baddbmm_(features.mT, of_numerators)
                    of_totals.baddbmm_(of_normaliser.mT, features)
                    of_features = torch.baddbmm(of_normaliser * totals[part], of_numerators, sums[part].mT)
                    _turn_back(of_features, queries[part, block], turns[row, block], out=of_queries[part, block])
                for block in blocks:
                    shown = None if real is None else real[row, block]
                    features = _features(keys[part, block], turns[row, block], ctx.eps, shown)
                    torch.bmm(features, of_sums, out=of_values[part, block])
                    of_features = torch.baddbmm(of_totals, values[part, block], of_sums.mT)
                    _turn_back(of_features, keys[part, block], turns[row, block], out=of_keys[part, block])
        shape = query.shape[:2]
        return *(rows.unflatten(0, shape) for rows in (of_queries, of_keys, of_values)), None, None, None


def _blocks(rows: Tensor) -> Iterator[tuple[slice, Tensor, list[slice]]]:
    """Yield sequences of `rows` [B, H, N, d], the rows of the batch that they belong to, and blocks of their tokens.

    The number of features of a sequence and a block together suits the device.
    """
    batch, heads, length, width = rows.shape
    tokens = max(1, FEATURES["cpu" if rows.device.type == "cpu" else "gpu"] // (2 * width))
    blocks = [slice(start, start + tokens) for start in range(0, length, tokens)]
    size = max(1, tokens // length)
    for start in range(0, batch * heads, size):
        part = torch.arange(start, min(start + size, batch * heads), device=rows.device)
        yield slice(start, start + size), part // heads, blocks


def _features(rows: Tensor, turns: Tensor, eps: float, real: Tensor | None = None) -> Tensor:
    """Return phi of `rows` [G, n, d] times cosines, and times sines, of `turns` [G, n, 2]: [G, n, 2 d].

    They are zeros where `real` [G, n] is false.
    """
    positive = functional.relu(rows).add_(eps)
    if real is not None:
        positive.masked_fill_(~real[..., None], 0)
    features = positive.new_empty(*positive.shape[:-1], 2 * positive.shape[-1])
    for half, turn in zip(features.chunk(2, -1), turns.split(1, -1), strict=True):
        torch.mul(positive, turn, out=half)
    return features


def _turn_back(of_features: Tensor, rows: Tensor, turns: Tensor, out: Tensor) -> None:
    """Write into `out` [G, n, d] the gradient of `rows`, given that of their features [G, n, 2 d]."""
    cosine, sine = of_features.chunk(2, -1)
    torch.mul(cosine, turns[..., :1], out=out)
    out.addcmul_(sine, turns[..., 1:]).mul_(rows > 0)
