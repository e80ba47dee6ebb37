"""Options and table output shared by the measuring programs of `scripts/`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lib.core import program
from lib.core.files import read_mapping, write_text

GRID = Path(__file__).parents[2] / "config" / "config.yaml"

MEANINGS = {
    "alibi": "scores have the bias of ALiBi",
    "architectures": "compute capabilities, 10 times major plus minor",
    "batch": "sequences of a step",
    "busy": "processes that compute beside it without end",
    "chunk_sizes": "tokens of a chunk",
    "document_batch": "documents of a batch",
    "documents": "documents of an epoch",
    "dropout": "of the weights",
    "encoder": "sizes and dropouts of the encoder",
    "features": "columns of the feature map, even",
    "gibibytes": "leave out a pass that is expected to take more",
    "hashes": "hash rounds",
    "head_size": "width of a head",
    "heads": "attention heads",
    "length": "tokens of a sequence",
    "lengths": "tokens of a sequence",
    "max_tokens": "tokens to keep of each text",
    "mechanism": "name in config/config.yaml",
    "mechanisms": "parameters by name (those of config/config.yaml)",
    "megabytes": "size of the XML; the shard has half of it",
    "minutes": "leave out a pass that is expected to take more",
    "models": "architectures by name",
    "norms": "of queries and keys",
    "once": "one pass of each, which measures nothing",
    "repetitions": "repetitions of a step",
    "seconds": "time to repeat a row in, or of a sweep",
    "seeds": "of inputs and draws",
    "spins": "values of GOMP_SPINCOUNT",
    "sweep": "try other launches",
    "texts": "Parquet file with a column `text`",
    "tokens": "tokens of a batch",
    "turns": "processes per value, one after the other",
    "vocabulary": "vocab.txt",
    "workers": "processes that compile",
}
"""Help texts of the options."""


def parser(documentation: str | None, *, on_device: bool = False, **defaults: Any) -> argparse.ArgumentParser:
    """Return the parser of a program that measures, with the table to write and an option for each of `defaults`.

    Args:
        documentation: the program's own.
        on_device: whether there are options for the device and the type to compute with.
        defaults: by the name of the option, see `MEANINGS`. An option has the type of its default: mappings are JSON,
            sequences take several values, False makes a switch. `str` makes an option that is required.
    """
    result = program.parser(documentation)
    result.add_argument("--out", required=True, metavar="FILE", help="CSV file to write")
    if on_device:
        add_device(result)
    for name, default in defaults.items():
        flag, meaning = f"--{name.replace('_', '-')}", MEANINGS[name]
        if default is False:
            result.add_argument(flag, action="store_true", help=meaning)
        elif default is str:
            result.add_argument(flag, required=True, metavar="FILE", help=meaning)
        elif isinstance(default, dict):
            result.add_argument(flag, type=program.json_value, default=default, metavar="JSON", help=meaning)
        elif isinstance(default, list | tuple):
            text = f"{meaning} ({' '.join(map(str, default))})"
            result.add_argument(flag, nargs="+", type=type(default[0]), default=default, help=text)
        else:
            result.add_argument(flag, type=type(default), default=default, help=f"{meaning} ({default})")
    return result


def add_device(result: argparse.ArgumentParser) -> None:
    """Add the options for the device, a GPU if there is one, and for the type, bfloat16 there."""
    on_gpu = torch.cuda.is_available()
    result.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu", help="the GPU if any")
    result.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        default="bfloat16" if on_gpu else "float32",
        help="type of the inputs, or of the forward pass in training (bfloat16 on a GPU)",
    )


def of_the_grid() -> dict[str, dict[str, Any]]:
    """Return the mechanisms of the full grid: parameters by name."""
    return read_mapping(GRID)["experiment"]["mechanisms"]


def measure(
    options: argparse.ArgumentParser, function: Callable[..., pd.DataFrame], argv: Sequence[str] | None
) -> None:
    """Write what `function` returns for the options in `argv`."""
    arguments = vars(options.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, function(**arguments))


def write_table(path: str | Path, table: pd.DataFrame) -> None:
    """Write `table` as CSV, numbers with five digits, the same on every system.

    Args:
        path: file to appear.
        table: a row for each measurement.

    Raises:
        ProjectError: the file cannot be written.
    """
    write_text(path, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
