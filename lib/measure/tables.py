"""The tables that were measured: their columns, and how they are read."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lib.core.errors import DataError

ATTENTION_COLUMNS = [
    "implementation", "mechanism", "kernels", "length", "batch", "padding", "heads", "head_size", "device", "dtype",
    "threads", "median_ms", "min_ms", "max_ms", "bytes_kept", "gemm_share", "peak_mb", "host_ms",
    "clock_mhz", "repetitions", "processor", "torch",
]  # fmt: skip
TRAINING_COLUMNS = [
    "implementation", "model", "kernels", "step", "batch", "tokens", "median_ms", "tokens_per_s", "gemm_share",
    "peak_mb", "host_ms", "clock_mhz", "device", "dtype", "threads", "repetitions", "processor", "torch",
]  # fmt: skip
ADAPTATION_COLUMNS = [
    "implementation", "model", "parameters", "trained", "vocabulary", "batch", "tokens", "scored", "median_ms",
    "tokens_per_s", "peak_mb", "device", "dtype", "threads", "repetitions", "processor", "torch",
]  # fmt: skip
SEQUENCE_COLUMNS = [
    "layer", "family", "pass", "length", "hidden_size", "heads", "device", "dtype", "threads",
    "median_ms", "min_ms", "max_ms", "us_per_token", "repetitions", "skipped", "processor", "torch",
]  # fmt: skip
MEMORY_COLUMNS = [
    "mechanism", "length", "heads", "head_size", "device", "dtype", "threads", "matrix_mb", "computed_mb", "peak_mb",
    "kept_mb", "seconds", "skipped", "processor", "torch",
]  # fmt: skip

QUOTED_GB = {512: 1, 2048: 4, 8192: 16, 128_000: 100}
"""Memory in GB by tokens that a lecture quotes, approximately, and for 128,000 tokens as far above.

Source:
    "Sieci RNN/LSTM/GRU i Transformer", section 5.4; it names models, but neither their layers nor what is counted.
"""


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
