"""The tables that were measured: their columns, and how they are read."""

from pathlib import Path

import pandas as pd

from lib.core.errors import DataError

COLUMNS: dict[str, list[str]] = {
    "attention_cost": [
        "implementation", "mechanism", "kernels", "length", "batch", "padding", "heads", "head_size",
        "device", "dtype", "threads", "median_ms", "min_ms", "max_ms", "bytes_kept", "gemm_share", "peak_mb",
        "host_ms", "clock_mhz", "repetitions", "processor", "torch",
    ],
    "training_cost": [
        "implementation", "model", "kernels", "step", "batch", "tokens", "median_ms", "tokens_per_s",
        "gemm_share", "peak_mb", "host_ms", "clock_mhz", "device", "dtype", "threads", "repetitions",
        "processor", "torch",
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
"""Columns by table, which has the name of the program that measures it."""

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
