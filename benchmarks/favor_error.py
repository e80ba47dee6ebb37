"""Measure how far FAVOR+ is from exact softmax attention, over features, norms and lengths, on generated inputs.

Out: a CSV file, one row per estimator, number of features, norm, length and seed.

Shapes: N tokens, d head width, M columns of a feature map, D rows drawn.

Inputs have exact norms: every query and key is a random direction times the norm, before the scaling by d^(-1/4) that
the feature maps begin with. Scores of independent directions have the standard deviation norm^2 / d. Draws and codes
are those of the mechanism itself (one head, layer 0); everything is a function of the arguments.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional

from benchmarks import options
from benchmarks.tables import COLUMNS
from lib.attention.approximation_error import relative_error
from lib.attention.contract import build
from lib.attention.settings import MECHANISMS
from lib.core.randomness import derive_seed

INPUTS: dict[str, Any] = {"head_size": 64, "seeds": (0, 1, 2, 3, 4)}
FAVOR: dict[str, Any] = INPUTS | {
    "norms": (2.0, 3.0, 4.0, 6.0, 8.0, 16.0),
    "lengths": (256, 512, 1024, 2048, 4096),
    "features": (16, 32, 64, 128, 256, 512, 1024, 2048),
}
"""What `make bench` measures, by argument."""

ESTIMATORS = ("cosh", "exp", "saderf")


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


def _favor_inputs(length: int, head_size: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return directions of queries and keys, and values, [N, d] each in float64."""
    generator = _generator("favor", length, seed)
    query, key, value = torch.randn(3, length, head_size, generator=generator, dtype=torch.float64)
    return functional.normalize(query, dim=-1), functional.normalize(key, dim=-1), value


def _generator(purpose: str, *key: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive_seed(f"approximation-{purpose}", *key))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, **FAVOR)
    try:
        options.measure(parser, favor_error, argv)
    except ValidationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(options.run(__file__))
