"""The tables that were measured: their columns, and the lengths where mechanisms become faster than exact attention."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lib.core.errors import DataError

COLUMNS: dict[str, list[str]] = {
    "attention_cost": [
        "implementation", "mechanism", "kernels", "length", "batch", "padding", "heads", "head_size",
        "device", "dtype", "threads", "median_ms", "min_ms", "max_ms", "bytes_kept", "gemm_share", "peak_mb",
        "host_ms", "clock_mhz", "repetitions", "memory_kept", "processor", "torch",
    ],
    "training_cost": [
        "implementation", "model", "kernels", "compiled", "step", "length", "batch", "tokens", "median_ms",
        "min_ms", "max_ms", "tokens_per_s", "gemm_share", "peak_mb", "host_ms", "clock_mhz", "device", "dtype",
        "threads", "repetitions", "processor", "torch",
    ],
    "encoder_cost": [
        "implementation", "model", "parameters", "pass", "length", "batch", "tokens", "hidden_size", "median_ms",
        "min_ms", "max_ms", "tokens_per_s", "device", "dtype", "threads", "repetitions", "skipped", "processor",
        "torch",
    ],
    "adaptation_cost": [
        "implementation", "model", "parameters", "trained", "vocabulary", "batch", "tokens", "scored",
        "median_ms", "tokens_per_s", "peak_mb", "device", "dtype", "threads", "repetitions", "processor",
        "torch",
    ],
    "sequence_cost": [
        "layer", "family", "pass", "length", "hidden_size", "heads", "device", "dtype", "threads",
        "median_ms", "min_ms", "max_ms", "us_per_token", "repetitions", "skipped", "processor", "torch",
    ],
    "memory_cost": [
        "mechanism", "length", "heads", "head_size", "device", "dtype", "threads", "matrix_mb", "computed_mb",
        "peak_mb", "kept_mb", "seconds", "skipped", "processor", "torch",
    ],
    "scan_cost": [
        "implementation", "kernels", "pass", "length", "batch", "heads", "head_size", "state_size", "median_ms",
        "min_ms", "max_ms", "host_ms", "error", "device", "dtype", "threads", "repetitions", "processor", "torch",
    ],
    "favor_error": ["estimator", "features", "norm", "length", "seed", "relative_error", "average_relative_error"],
    "lsh_recall": ["norm", "cosine", "length", "effective_keys", "chunk_size", "hashes", "sorting", "seed", "recall"],
    "grid_hours": [
        "stage", "dataset", "model", "documents", "epochs", "mean_tokens", "lengths", "hours", "published_hours",
    ],
    "kernel_resources": [
        "mechanism", "kernel", "architecture", "warps", "registers", "spilled_bytes", "shared_kib",
    ],
    "kernel_times": ["mechanism", "kernels", "padding", "length", "batch", "kernel", "calls", "us"],
    "kernel_sweep": ["mechanism", "length", "batch", "kernel", "rows", "columns", "warps", "stages", "us"],
}  # fmt: skip
"""Columns by table. The program that measures it has its name; `kernel_sweep` is measured by `kernel_times --sweep`."""

OURS, EXACT = "ours", "sdpa"
MODERN = "modernbert"
"""Others are compared with this whole encoder."""
BY_TRITON = " (triton)"
"""Ends the name of a mechanism that computed with Triton kernels."""

COMPILED = " (compiled)"
"""Ends the name of a model whose blocks torch compiled."""

LEAST = 3
"""Repetitions that a comparison of times needs: fewer show no spread."""

QUOTED_GB = {512: 1, 2048: 4, 8192: 16, 128_000: 100}
"""Memory in GB by tokens that a lecture quotes, approximately, and for 128,000 tokens as far above.

Source:
    "Sieci RNN/LSTM/GRU i Transformer", section 5.4; it names models, but neither their layers nor the memory that is
    counted.
"""


def read_table(path: str | Path, name: str) -> pd.DataFrame:
    """Return the table at `path`.

    Args:
        path: a CSV file.
        name: of the table in `COLUMNS`.

    Raises:
        DataError: it cannot be read, has no rows, or lacks a column.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error}). Make the table again.") from error
    missing = [column for column in COLUMNS[name] if column not in table]
    if missing or table.empty:
        raise DataError(
            f"{path}: {f'lacks the columns {missing}' if missing else 'has no rows'}. Make the table again."
        )
    return table


def attention_rows(costs: pd.DataFrame, padding: str = "none") -> dict[tuple[str, str], pd.DataFrame]:
    """Return the rows of each implementation and mechanism with a padding, by length, ascending.

    The cost of our mechanisms with Triton kernels is under their names with `BY_TRITON`.

    Args:
        costs: table `attention_cost`.
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
        costs: table `attention_cost`.
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
        against = exact.reindex(group.index)  # on a GPU, rows that fail are left out
        repeated = (group["repetitions"] >= LEAST) & (against["repetitions"] >= LEAST)
        faster = repeated & (group["max_ms"] < against["min_ms"])
        slower = group.index[repeated & (group["min_ms"] > against["max_ms"])]
        last = faster[::-1].cummin()  # whether it is faster from a length on
        found[name] = None
        if last.any():
            since = int(last.index[last].min())
            before = slower[slower < since]
            found[name] = Crossover(int(before[-1]) if len(before) else None, since)
    return found
