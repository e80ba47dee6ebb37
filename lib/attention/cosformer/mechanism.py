"""cosFormer by torch's operations, on every device: ReLU features, reweighted by the cosine of the distance.

Linear in N in time and memory; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import Attention
from lib.attention.cosformer.parameters import Parameters
from lib.attention.ranks import ranks


class Mechanism(Attention):
    """Attention with the kernel phi(q_i) . phi(k_j) cos(pi/2 (i - j) / n), phi(x) = max(x, 0) + eps.

    i and j count the real tokens of a row, and n is how many it has, so the farthest two tokens of any text have a
    weight near 0. Kernel values are positive, and are divided by their sum over the keys. Since cos(a - b) =
    cos a cos b + sin a sin b, the sums over keys are two matrices [d, d] per head, and no N x N tensor is formed.

    Source:
        Qin et al. 2022, "cosFormer: Rethinking Softmax in Attention", equations 9 to 13. There, n is a maximum set for
        all texts (M), and features have no eps; their code raises sums below 1e-6 to it.
    """

    settings: Parameters

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        places, lengths = ranks(real, query)
        angles = places.to(precision) * (math.pi / 2 / lengths.clamp(min=1)[:, None].to(precision))  # [B, N]
        trigonometric = [turned[:, None, :, None] for turned in (angles.cos(), angles.sin())]
        padding = None if real is None else ~real[:, None, :, None]
        with torch.autocast(query.device.type, enabled=False):
            rows = (each.to(precision) for each in (query, key, value))
            return _Attend.apply(*rows, trigonometric, padding, self.settings.eps)


def _features(rows: Tensor, eps: float, padding: Tensor | None = None) -> Tensor:
    """Return phi of `rows` [B, H, N, d], zeros where `padding` [B, 1, N, 1] is true."""
    features = functional.relu(rows).add_(eps)
    return features if padding is None else features.masked_fill_(padding, 0)


class _Attend(torch.autograd.Function):
    """Sum keys and values to matrices, and read these by queries.

    Keeps its arguments and sums for the backward pass, which computes the features again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        trigonometric: list[Tensor],
        padding: Tensor | None,
        eps: float,
    ) -> Tensor:
        """Return the output [B, H, N, d].

        Args:
            ctx: autograd's.
            query: [B, H, N, d].
            key: as `query`.
            value: as `query`.
            trigonometric: cosines and sines of the angles of tokens, [B or 1, 1, N, 1] each.
            padding: [B, 1, N, 1], true at padding; None = all real.
            eps: added to the features.
        """
        features = _features(key, eps, padding)
        turned = [features * each for each in trigonometric]
        matrices = [each.mT @ value for each in turned]  # [B, H, d, d]
        sums = [each.sum(-2, keepdim=True) for each in turned]  # [B, H, 1, d]
        features = _features(query, eps)
        normaliser = features.new_zeros(()).expand(*features.shape[:-1], 1)
        output = torch.zeros_like(value)
        for each, matrix, total in zip(trigonometric, matrices, sums, strict=True):
            output.addcmul_(features @ matrix, each)
            normaliser = torch.addcmul(normaliser, features @ total.mT, each)
        if padding is not None:  # a row without real tokens has nothing to divide by
            normaliser = torch.where(normaliser > 0, normaliser, 1)
        output /= normaliser
        ctx.save_for_backward(query, key, value, output, normaliser, *trigonometric, padding, *matrices, *sums)
        ctx.eps = eps
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value, [B, H, N, d] each."""
        query, key, value, output, normaliser, cosine, sine, padding, *summed = ctx.saved_tensors
        of_queries, of_keys, of_values = (torch.zeros_like(rows) for rows in (query, key, value))
        with torch.autocast(gradient.device.type, enabled=False):
            queries, keys = _features(query, ctx.eps), _features(key, ctx.eps, padding)
            of_numerators = gradient / normaliser
            of_normaliser = -(of_numerators * output).sum(-1, keepdim=True)  # [B, H, N, 1]
            for each, matrix, total in zip((cosine, sine), summed[:2], summed[2:], strict=True):
                turned = queries * each
                of_matrix = turned.mT @ of_numerators
                of_total = of_normaliser.mT @ turned  # [B, H, 1, d]
                of_queries.addcmul_(of_numerators @ matrix.mT + of_normaliser * total, each)
                of_keys.addcmul_(value @ of_matrix.mT + of_total, each)
                of_values += (keys * each) @ of_matrix
        of_keys *= key > 0
        return of_queries.mul_(query > 0), of_keys, of_values, None, None, None
