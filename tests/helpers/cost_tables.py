"""Tables as the programs that measure costs write them, with made times."""

from functools import partial

import pandas as pd

from lib.measure.tables import COLUMNS

MADE = {
    "batch": 4, "heads": 8, "head_size": 64, "device": "cpu", "dtype": "float32", "threads": 2, "median_ms": 100.0,
    "min_ms": 90.0, "max_ms": 110.0, "bytes_kept": 1000, "gemm_share": 0.5, "peak_mb": 10.0, "repetitions": 2,
    "tokens": 2048, "vocabulary": 32_000, "tokens_per_s": 1000.0, "processor": "Some Processor", "torch": "2.0",
    "kernels": "torch", "compiled": False, "length": 512, "host_ms": float("nan"), "clock_mhz": float("nan"),
    "family": "attention", "hidden_size": 512, "us_per_token": 50.0, "skipped": None, "seconds": 1.0, "kept_mb": 5.0,
    "memory_kept": False,
}  # fmt: skip


def made_table(name, rows):
    """Return the table of that name with a row for each mapping in `rows`, filled up."""
    return pd.DataFrame([MADE | row for row in rows], columns=COLUMNS[name])


attention_table, training_table, encoder_table, adaptation_table, sequence_table, memory_table = (
    partial(made_table, f"{name}_cost")
    for name in ("attention", "training", "encoder", "adaptation", "sequence", "memory")
)


def markdown_tables(text):
    """Return every table in Markdown `text`, as a list of rows by column."""
    tables, header = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not cells:
            header = None
        elif header is None:
            header = cells
            tables.append([])
        elif set(line) - set("|:-"):
            tables[-1].append(dict(zip(header, cells, strict=True)))
    return tables
