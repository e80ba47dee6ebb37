"""The tables that were measured: their columns, and how they are read."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lib.core.errors import DataError

ATTENTION_COLUMNS = [
    "implementation", "mechanism", "length", "batch", "padding", "heads", "head_size", "device", "dtype", "threads",
    "median_ms", "min_ms", "max_ms", "bytes_kept", "gemm_share", "peak_mb", "repetitions", "processor", "torch",
]  # fmt: skip
TRAINING_COLUMNS = [
    "implementation", "model", "step", "batch", "tokens", "median_ms", "tokens_per_s", "peak_mb",
    "device", "dtype", "threads", "repetitions", "processor", "torch",
]  # fmt: skip


def read_table(path: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return the table at `path`.

    Raises:
        DataError: it cannot be read, has no rows, or lacks one of `columns`.
    """
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as CSV ({error}). Make the table again.") from error
    missing = [name for name in columns if name not in table]
    if missing or table.empty:
        raise DataError(
            f"{path}: {f'lacks the columns {missing}' if missing else 'has no rows'}. Make the table again."
        )
    return table
