"""Deviation of an approximation from exact attention, on given queries and keys; dense, only for analyses.

Shapes: N tokens, n of them as queries, d head width, R hash rounds; leading dimensions are a batch of heads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def relative_error(approximate: Tensor, exact: Tensor) -> Tensor:
    """Return |approximate - exact|_F / |exact|_F of outputs [..., N, d]; one may be broadcast: [...]."""
    return torch.linalg.norm(approximate - exact, dim=(-2, -1)) / torch.linalg.norm(exact, dim=(-2, -1))


def chunk_numbers(codes: Tensor, chunk_size: int) -> Tensor:
    """Return the chunk of each token after sorting by code [..., N] and then by position: [..., N]."""
    places = codes.argsort(dim=-1, stable=True).argsort(dim=-1)
    return places // chunk_size


def window_mass(weights: Tensor, of_queries: Tensor, of_keys: Tensor, rounds: Sequence[int]) -> Tensor:
    """Return the share of attention weights inside the windows of LSH: a chunk of keys and both neighbours.

    Args:
        weights: [..., n, N].
        of_queries: chunk of every query in every round [..., R, n].
        of_keys: chunk of every key in every round [..., R, N].
        rounds: numbers of rounds, ascending; that many first rounds count, and a key in several of them counts once.

    Returns:
        Sums over queries and keys in float64, [..., len(rounds)].
    """
    seen = torch.zeros(weights.shape, dtype=torch.bool, device=weights.device)
    sums = []
    for done, (queries, keys) in enumerate(zip(of_queries.unbind(-2), of_keys.unbind(-2), strict=True), start=1):
        seen |= (queries[..., None] - keys[..., None, :]).abs_() <= 1
        if done in rounds:
            sums.append(torch.where(seen, weights, 0).sum((-2, -1)).double())
    return torch.stack(sums, dim=-1)
