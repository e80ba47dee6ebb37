"""From which length on a mechanism is faster than exact attention, from the table that was measured."""

import math

import numpy as np
import pandas as pd

from lib.core.errors import DataError

OURS, EXACT = "ours", "sdpa"
BY_TRITON = " (triton)"
"""Ends the name of a mechanism that computed with Triton kernels."""


def attention_rows(costs: pd.DataFrame, padding: str = "none") -> dict[tuple[str, str], pd.DataFrame]:
    """Return the rows of each implementation and mechanism with a padding, by length, ascending.

    What a mechanism of ours costs with Triton kernels stands under its name with `BY_TRITON`.

    Args:
        costs: table `attention_cost` of `lib.measure.tables`.
        padding: `none` or `ragged`.

    Raises:
        DataError: exact attention of ours, which all others are compared with, is missing.
    """
    costs = costs[costs["padding"] == padding]
    names = costs["mechanism"] + np.where(costs["kernels"] == "triton", BY_TRITON, "")
    rows = {
        key: group.set_index("length").sort_index()
        for key, group in costs.groupby([costs["implementation"], names], sort=False)
    }
    if (OURS, EXACT) not in rows:
        raise DataError(
            f"the table of attention's costs has no row of {OURS} {EXACT} with padding {padding}, which all others are "
            f"compared with. Keep the mechanism {EXACT} in the configuration, and measure again."
        )
    return rows


def crossovers(costs: pd.DataFrame, padding: str = "none") -> dict[str, float | None]:
    """Return from which length in tokens on each mechanism of ours is faster than exact attention.

    Times are joined by lines between logarithms. The shortest length that was measured means: there, or before. None
    means: nowhere in the lengths measured. Rows with projections and exact attention itself are left out.

    Args:
        costs: table `attention_cost` of `lib.measure.tables`.
        padding: `none` or `ragged`.

    Raises:
        DataError: exact attention of ours is missing.
    """
    rows = attention_rows(costs, padding)
    exact = rows[OURS, EXACT]["median_ms"]
    found: dict[str, float | None] = {}
    for (implementation, name), group in rows.items():
        if implementation != OURS or name.startswith(EXACT) or "+" in name:
            continue
        ratio = (group["median_ms"] / exact).dropna().map(math.log)  # on a GPU, rows that fail are left out
        found[name] = None
        if ratio.iloc[-1] < 0:
            slower = ratio[ratio >= 0]
            found[name] = float(ratio.index[0])
            if len(slower):
                before, after = slower.index[-1], ratio.index[list(ratio.index).index(slower.index[-1]) + 1]
                share = ratio[before] / (ratio[before] - ratio[after])
                found[name] = before * (after / before) ** share
    return found
