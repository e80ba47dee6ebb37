"""From which length on a mechanism is faster than exact attention, from the table that was measured."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.measure.tables import LEAST

OURS, EXACT = "ours", "sdpa"
BY_TRITON = " (triton)"
"""Ends the name of a mechanism that computed with Triton kernels."""


def attention_rows(costs: pd.DataFrame, padding: str = "none") -> dict[tuple[str, str], pd.DataFrame]:
    """Return the rows of each implementation and mechanism with a padding, by length, ascending.

    The cost of our mechanisms with Triton kernels is under their names with `BY_TRITON`.

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


@dataclass(frozen=True)
class Crossover:
    """Between which two measured lengths, in tokens, a mechanism becomes faster than exact attention."""

    slower: int | None
    """The longest length at which it is slower; None = it was never slower."""
    faster: int
    """It is faster from here on, at every length that was measured."""


def crossovers(costs: pd.DataFrame, padding: str = "none") -> dict[str, Crossover | None]:
    """Return between which lengths each mechanism of ours becomes faster than exact attention, None if none is seen.

    At each length it is compared with the faster of the exact attentions, ours and torch's. It is faster, or slower,
    where no repetition of the one took as long as any of the other, with `LEAST` repetitions of each; if both took the
    same time, 1 of 20 lengths would be called faster. Other lengths decide nothing. Rows with projections and exact
    attention itself are left out.

    Args:
        costs: table `attention_cost` of `lib.measure.tables`.
        padding: `none` or `ragged`.

    Raises:
        DataError: exact attention of ours is missing.
    """
    rows = attention_rows(costs, padding)
    exact = pd.concat([rows[key] for key in [(OURS, EXACT), ("torch", EXACT)] if key in rows])
    exact = exact.sort_values("median_ms").groupby(level="length").first()
    found: dict[str, Crossover | None] = {}
    for (implementation, name), group in rows.items():
        if implementation != OURS or name.startswith(EXACT) or "+" in name:
            continue
        beside = exact.reindex(group.index)  # on a GPU, rows that fail are left out
        repeated = (group["repetitions"] >= LEAST) & (beside["repetitions"] >= LEAST)
        faster = repeated & (group["max_ms"] < beside["min_ms"])
        slower = group.index[repeated & (group["min_ms"] > beside["max_ms"])]
        last = faster[::-1].cummin()  # whether it is faster from a length on
        found[name] = None
        if last.any():
            since = int(last.index[last].min())
            before = slower[slower < since]
            found[name] = Crossover(int(before[-1]) if len(before) else None, since)
    return found
