"""Measure the share of exact attention within the windows of LSH, on generated inputs.

Out: a CSV file, one row per input, chunk size, number of hashes, order (LSH or random) and seed.

Shapes: N tokens, d head width, R hash rounds. For the inputs see `favor_error`.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks import options
from benchmarks.tables import COLUMNS
from lib.attention.approximation_error import chunk_numbers, window_mass
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.core.randomness import derive_seed

INPUTS: dict[str, Any] = {"head_size": 64, "seeds": (0, 1, 2, 3, 4)}
LSH: dict[str, Any] = INPUTS | {"length": 4096, "chunk_sizes": (16, 32, 64, 128), "hashes": (1, 2, 4, 8)}
"""What `make bench` measures, by argument."""
CLUSTERS = ((4, 0.0), (8, 0.0), (16, 0.0), (8, 0.5), (8, 0.7), (8, 0.9))
"""Norm, and cosine of two tokens of a cluster (0: no clusters)."""
CLUSTER = 64
"""Tokens in a cluster."""

ROWS = 256
"""Queries whose weights are in memory at a time: as many as a cache holds."""


def lsh_recall(
    *,
    length: int,
    chunk_sizes: Iterable[int],
    hashes: Iterable[int],
    head_size: int,
    seeds: Iterable[int],
    inputs: Iterable[tuple[float, float]] = CLUSTERS,
) -> pd.DataFrame:
    """Measure which share of the exact attention lies within the windows of LSH attention.

    Exact attention is the softmax over all other tokens, queries serving as keys. Of a query's weights, those of the
    keys that it sees in at least one hash round are summed: the upper limit, while the mechanism gives each
    round a softmax of its own and averages. Fewer hashes are the first rounds of more.

    Args:
        length: N.
        chunk_sizes: tokens in a chunk; a window is a chunk and both neighbours.
        hashes: numbers of rounds.
        head_size: d.
        seeds: of inputs and rotations.
        inputs: norm of the queries and cosine between those of a cluster, see `clustered`.

    Returns:
        A row for each norm, cosine, chunk size, number of hashes, `sorting` and seed: `recall`, the mean over all
        queries, with tokens sorted by the mechanism's hash (`lsh`) or at random (`random`) into the same windows;
        `effective_keys`, the mean over queries of exp(entropy of the exact weights).
    """
    hashes, rows = sorted(hashes), []
    for norm, cosine in inputs:
        for seed in seeds:
            query = clustered(length, head_size, norm, cosine, seed)
            chunks = {}
            for size in chunk_sizes:
                codes = lsh_codes(query, hashes[-1], size, seed)
                generator = _generator("random-codes", size, seed)
                shuffled = torch.stack([torch.randperm(length, generator=generator) for _ in codes])
                chunks[size, "lsh"], chunks[size, "random"] = (chunk_numbers(c, size) for c in (codes, shuffled))
            keys, caught = lsh_mass(query, list(chunks.values()), hashes)
            for (size, sorting), shares in zip(chunks, caught, strict=True):
                rows += [
                    (norm, cosine, length, keys, size, number, sorting, seed, share)
                    for number, share in zip(hashes, shares, strict=True)
                ]
    return pd.DataFrame(rows, columns=COLUMNS["lsh_recall"])


def clustered(length: int, head_size: int, norm: float, cosine: float, seed: int) -> Tensor:
    """Return queries of one norm in clusters of at most `CLUSTER` tokens, in random order: [N, d].

    Args:
        length: N.
        head_size: d.
        norm: of every query.
        cosine: about that between two of a cluster; other pairs are independent. 0: no clusters.
        seed: of the draw; the directions drawn are the same for all norms and cosines.
    """
    generator = _generator("clusters", length, seed)
    clusters = -(-length // CLUSTER)
    centres = torch.randn(clusters, head_size, generator=generator)
    own = torch.randn(length, head_size, generator=generator)
    members = torch.randperm(length, generator=generator) % clusters
    rows = math.sqrt(cosine) * centres[members] + math.sqrt(1 - cosine) * own
    return norm * functional.normalize(rows, dim=-1)


def lsh_codes(query: Tensor, num_hashes: int, chunk_size: int, seed: int) -> Tensor:
    """Return the mechanism's hash codes of `query` [N, d]: [R, N]."""
    parameters = MECHANISMS.parse({"kind": "lsh", "num_hashes": num_hashes, "chunk_size": chunk_size})
    mechanism: Any = build(parameters, num_heads=1, head_size=query.shape[1], layer=0, seed=seed).eval()
    return mechanism.hash(query[None, None], torch.ones(1, len(query), dtype=torch.bool))[0, 0]


def lsh_mass(query: Tensor, sortings: Sequence[Tensor], hashes: Sequence[int]) -> tuple[float, list[list[float]]]:
    """Return the effective keys of exact attention, and the share of it that windows catch.

    Args:
        query: [N, d]; serves as key.
        sortings: chunk of every token in every round [R, N], once for each way to sort.
        hashes: numbers of rounds, ascending.

    Returns:
        Mean over queries of exp(entropy), and for each sorting the mean caught by the first rounds, for each number.
    """
    length, width = query.shape
    keys, caught = 0.0, torch.zeros(len(sortings), len(hashes), dtype=torch.float64)
    sortings = [chunks.to(torch.int16) for chunks in sortings]
    for start in range(0, length, ROWS):
        rows = slice(start, start + ROWS)
        scores = query[rows] @ query.T / math.sqrt(width)
        scores.diagonal(start).fill_(-math.inf)
        weights = scores.softmax(-1)
        keys += torch.special.entr(weights).sum(-1).exp().sum().item() / length
        for number, chunks in enumerate(sortings):
            caught[number] += window_mass(weights, chunks[:, rows], chunks, hashes) / length
    return keys, caught.tolist()


def _generator(purpose: str, *key: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(f"approximation-{purpose}", *key))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options.measure(options.parser(__doc__, **LSH), lsh_recall, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
