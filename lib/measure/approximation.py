"""How near FAVOR+ and LSH come to exact attention: over made inputs, dense, without a model.

Shapes: N tokens, d head width, M columns of a feature map, D rows drawn, R hash rounds.

Inputs have exact norms: every query and key is a random direction times the norm, before the scaling by d^(-1/4) that
the feature maps begin with. Scores of independent directions have the standard deviation norm^2 / d. Draws and codes
are those of the mechanism itself (one head, layer 0); everything is a function of the arguments.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.approximation_error import chunk_numbers, relative_error, window_mass
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.core.randomness import derive_seed
from lib.measure.tables import COLUMNS

INPUTS: dict[str, Any] = {"head_size": 64, "seeds": (0, 1, 2, 3, 4)}
FAVOR: dict[str, Any] = INPUTS | {
    "norms": (2.0, 3.0, 4.0, 6.0, 8.0, 16.0),
    "lengths": (256, 512, 1024, 2048, 4096),
    "features": (16, 32, 64, 128, 256, 512, 1024, 2048),
}
LSH: dict[str, Any] = INPUTS | {"length": 4096, "chunk_sizes": (16, 32, 64, 128), "hashes": (1, 2, 4, 8)}
"""What `make bench` measures, by argument."""

ESTIMATORS = ("cosh", "exp", "saderf")
CLUSTERS = ((4, 0.0), (8, 0.0), (16, 0.0), (8, 0.5), (8, 0.7), (8, 0.9))
"""Norm, and cosine of two tokens of a cluster (0: no clusters)."""
CLUSTER = 64
"""Tokens in a cluster."""

ROWS = 256
"""Queries whose weights are in memory at a time: as many as a cache holds."""


def favor_error(
    *,
    norms: Iterable[float],
    lengths: Iterable[int],
    features: Iterable[int],
    head_size: int,
    seeds: Iterable[int],
    base_length: int = 1024,
    base_features: int = 256,
) -> pd.DataFrame:
    """Measure how far the output of FAVOR+ (`phi` = `exp`) is from that of exact softmax attention.

    The error is |approximate - exact|_F / |exact|_F of the outputs [N, d] in float64. Values are independent standard
    normal: no common mean hides an error, and on average over them both squares are d times those of the attention
    matrices, so that the error of the matrix is the same.

    Args:
        norms: of queries and keys, before the scaling by d^(-1/4).
        lengths: N, each with `base_features`.
        features: M, each with `base_length`; even.
        head_size: d.
        seeds: of inputs and draws.
        base_length: N over which the features vary.
        base_features: M over which the length varies.

    Returns:
        A row for each estimator, M, norm, N and seed: `relative_error`, and also `average_relative_error`, that of
        the plain mean of all values, which attends to nothing.

    Raises:
        pydantic.ValidationError: a number of features is odd.
    """
    sizes = sorted({(base_length, number) for number in features} | {(length, base_features) for length in lengths})
    rows = []
    for length in sorted({length for length, _ in sizes}):
        for seed in seeds:
            query, key, value = _favor_inputs(length, head_size, seed)
            for norm in norms:
                exact = functional.scaled_dot_product_attention(norm * query[None], norm * key[None], value[None])[0]
                average = relative_error(value.mean(0), exact).item()
                for number in sorted(number for size, number in sizes if size == length):
                    for estimator in ESTIMATORS:
                        draws = favor_draws(estimator, number, head_size, seed)
                        output = favor_output(estimator, norm * query, norm * key, value, draws)
                        error = relative_error(output, exact).item()
                        rows.append((estimator, number, norm, length, seed, error, average))
    return pd.DataFrame(rows, columns=COLUMNS["favor_error"])


def favor_draws(estimator: str, features: int, head_size: int, seed: int) -> Tensor:
    """Return the orthogonal draws of an estimator with M = `features` columns: [D, d] in float64.

    `cosh` and `saderf` make two columns of a draw, D = M / 2, and have the very draws of the mechanism; `exp` makes
    one, D = M.
    """
    parameters = MECHANISMS.parse({"kind": "favor", "nb_features": 2 * features if estimator == "exp" else features})
    mechanism: Any = build(parameters, num_heads=1, head_size=head_size, layer=0, seed=seed)
    return mechanism.features[0].double()


def favor_output(estimator: str, query: Tensor, key: Tensor, value: Tensor, draws: Tensor) -> Tensor:
    """Return attention with the kernel phi(q) . phi(k), its rows divided by their sums.

    Args:
        estimator: `exp`, phi(x) = exp(w.x - |x|^2 / 2) over the draws w; `cosh`, which has exp(-w.x - |x|^2 / 2) in
            addition each; or `saderf`, the same with rescaled rows and weighed draws.
        query: [N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        draws: w, [D, d].

    Returns:
        [N, d].

    Source:
        Choromanski et al. 2021, "Rethinking Attention with Performers", lemma 1: `SM^+` and `SM^{hyp+}`; for `saderf`
        see `lib.attention.favor.mechanism`.
    """
    weights = torch.zeros((), dtype=query.dtype)  # logarithms
    if estimator == "saderf":
        fit = MECHANISMS.load("favor", "mechanism").fitted
        found = fit(query[None, None], key[None, None], draws[None], real=None, scale=query.shape[-1] ** -0.25)
        (query,), (key,), draws, weights = (each[0] for each in found)

    def exponents(rows: Tensor) -> Tensor:
        rows = rows / rows.shape[-1] ** 0.25
        products = rows @ draws.T
        if estimator != "exp":
            products = torch.cat([products, -products], dim=-1)
        return weights / 2 + products - rows.square().sum(-1, keepdim=True) / 2  # [N, M]

    # As the mechanism, by two softmaxes: nothing overflows or vanishes.
    of_queries, of_keys = exponents(query), exponents(key)
    return (of_queries + of_keys.logsumexp(0)).softmax(-1) @ (of_keys.softmax(0).T @ value)


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


def _favor_inputs(length: int, head_size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return directions of queries and keys, and values, [N, d] each in float64."""
    generator = _generator("favor", length, seed)
    query, key, value = torch.randn(3, length, head_size, generator=generator, dtype=torch.float64)
    return functional.normalize(query, dim=-1), functional.normalize(key, dim=-1), value


def _generator(purpose: str, *key: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(f"approximation-{purpose}", *key))
