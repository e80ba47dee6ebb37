"""Geometry of attention: symmetry, dominance of queries or keys, weight on later tokens.

The score of a state x as a query and a state y as a key is x' W y, a form with W [D, D] = left' right. All measures are
computed from the factors; W itself is formed only if the factors are larger.

Shapes: F forms (such as those of heads), k their rank, D width of a state, N tokens.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

HEAVY = 2.0
"""The norm of a row or column is heavy if it is at least this number of standard deviations above the mean."""


class Form(NamedTuple):
    """Forms W = left' right."""

    left: Tensor
    """[F, k, D]; factor of the query's state."""
    right: Tensor
    """[F, k, D]; factor of the key's state."""


class Measures(NamedTuple):
    """Measures of forms; NaN for a form that is zero."""

    symmetry: Tensor
    """From -1, antisymmetric, to 1, symmetric [F]."""
    directionality: Tensor
    """From -1, columns (keys) dominate, to 1, rows (queries) dominate; 0 if no row or column is heavy [F]."""
    norm: Tensor
    """Frobenius norm; with a mirrored form, the root of the mean of both squares [F]."""


def measure(form: Form, mirrored: Form | None = None) -> Measures:
    """Return symmetry, directionality and norm of forms.

    Symmetry is (|S|^2 - |A|^2) / |W|^2 = tr(W W) / |W|^2, with S and A the symmetric and the antisymmetric part. With
    rotary positions two tokens meet in two forms, W for the earlier one as the query and M for the later one. Their
    scores are equal if W = M', so the measure is the symmetry of the block matrix [[0, W], [M, 0]],
    2 tr(W M) / (|W|^2 + |M|^2).

    Directionality is (R - C) / (R + C), with R the sum of the heavy rows' norms and C that of the heavy columns'.

    Args:
        form: W.
        mirrored: M; None = W itself.

    Source:
        Saponati et al. 2025 (https://arxiv.org/abs/2502.10927), definitions of both scores, with thresholds two
        standard deviations above the mean. The mirrored form is an addition.
    """
    rank, width = form.left.shape[-2:]
    if rank < width:
        energy, rows, columns = _by_factors(form)
        back = form if mirrored is None else mirrored
        mixed = ((form.right @ back.left.mT) * (back.right @ form.left.mT).mT).sum((-2, -1))
        mirrored_energy = energy if mirrored is None else _energy(mirrored)
    else:
        matrix = form.left.mT @ form.right
        other = matrix if mirrored is None else mirrored.left.mT @ mirrored.right
        squares = matrix.square()
        energy, rows, columns = squares.sum((-2, -1)), squares.sum(-1), squares.sum(-2)
        mixed, mirrored_energy = (matrix * other.mT).sum((-2, -1)), other.square().sum((-2, -1))
    both = (energy + mirrored_energy) / 2
    return Measures(mixed / both, _directionality(rows.clamp(min=0).sqrt(), columns.clamp(min=0).sqrt()), both.sqrt())


def _by_factors(form: Form) -> tuple[Tensor, Tensor, Tensor]:
    """Return the squared norm of forms [F], of their rows [F, D] and of their columns [F, D], by traces."""
    left, right = form
    of_left, of_right = left @ left.mT, right @ right.mT
    return (of_left * of_right).sum((-2, -1)), (left * (of_right @ left)).sum(-2), (right * (of_left @ right)).sum(-2)


def _energy(form: Form) -> Tensor:
    return ((form.left @ form.left.mT) * (form.right @ form.right.mT)).sum((-2, -1))


def _directionality(rows: Tensor, columns: Tensor) -> Tensor:
    """Return the directionality of forms whose rows and columns have these norms [F, D]."""
    heavy_rows, heavy_columns = (
        torch.where(norms > norms.mean(-1, keepdim=True) + HEAVY * norms.std(-1, correction=0, keepdim=True), norms, 0)
        .sum(-1)
        for norms in (rows, columns)
    )  # fmt: skip
    total = heavy_rows + heavy_columns
    score = torch.where(total > 0, (heavy_rows - heavy_columns) / total, 0)
    return torch.where(rows.any(-1), score, math.nan)


def largest_move(symmetry: Tensor, ratio: Tensor) -> Tensor:
    """Return an upper bound on how much any update changes the symmetry of a form.

    Transposing mirrors the space of forms at that of the symmetric ones, and symmetry is cos(2 a), with a the angle
    between W and that space. An update of norm e |W| turns W by at most asin(e), hence changes a by as much at most. It
    follows that symmetry moves by no more than 2 e. The bound is reached by updates within the plane of W and W', of
    rank 2 where W has rank 1. The rank of an update alone bounds nothing, since its norm is free.

    Args:
        symmetry: symmetry of the form, with or without the update.
        ratio: norm of the update over that of the same form.
    """
    angle, turn = torch.acos(symmetry.clamp(-1, 1)), 2 * torch.asin(ratio.clamp(max=1))
    highest, lowest = torch.cos((angle - turn).clamp(min=0)), torch.cos((angle + turn).clamp(max=math.pi))
    return torch.maximum(highest - symmetry, symmetry - lowest)


def upper_triangle_share(maps: Tensor) -> Tensor:
    """Return the share of the squared attention weights that falls on later tokens.

    0 where attention is causal, (N - 1) / 2N where all weights are equal.

    Args:
        maps: attention weights of one document without padding [..., N, N], rows are queries.

    Returns:
        Shares [...].

    Source:
        Havlytskyi 2025 (thesis, Kyiv Polytechnic Institute), positional upper-triangle energy ratio (pUTER).
    """
    squares = maps.double().square()
    return squares.triu(1).sum((-2, -1)) / squares.sum((-2, -1))
