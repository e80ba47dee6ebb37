"""Options and table output that the programs share."""

import argparse
import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lib.core import program
from lib.core.errors import ConfigError
from lib.core.files import read_mapping, write_text

GRID = Path(__file__).parents[1] / "config" / "config.yaml"

MEANINGS = {
    "alibi": "scores have the bias of ALiBi",
    "architectures": "compute capabilities, 10 times major plus minor",
    "batch": "sequences of a step",
    "busy": "other processes that compute without end",
    "chunk_sizes": "tokens of a chunk",
    "compile": "also with blocks that torch compiles",
    "document_batch": "documents of a batch",
    "documents": "documents of an epoch",
    "dropout": "of the weights",
    "encoder": "sizes and dropouts of the encoder",
    "encoders": "parameters of backbones by name",
    "features": "columns of the feature map, even",
    "gibibytes": "leave out a pass that is expected to take more",
    "hashes": "hash rounds",
    "head_size": "width of a head",
    "heads": "attention heads",
    "keep_memory": "the allocator keeps freed memory",
    "length": "tokens of a sequence",
    "lengths": "tokens of a sequence",
    "mechanism": "name in config/config.yaml",
    "mechanisms": "parameters by name, or a list for several layers (those of config/config.yaml)",
    "minutes": "leave out a pass that is expected to take more",
    "models": "architectures by name",
    "norms": "of queries and keys",
    "once": "one pass of each, which measures nothing",
    "repetitions": "repetitions of a step",
    "seconds": "time to repeat a row in, or of a sweep",
    "seeds": "of inputs and draws",
    "spins": "values of GOMP_SPINCOUNT",
    "state_size": "numbers that a head carries for each of its channels",
    "steps": "kinds of work",
    "sweep": "try other launches",
    "tokens": "tokens of a batch",
    "trains": "a step of training in place of a forward pass",
    "turns": "processes per value, one after the other",
    "workers": "processes that compile",
}
"""Help texts of the options."""


def parser(documentation: str | None, *, on_device: bool = False, **defaults: Any) -> argparse.ArgumentParser:
    """Return the parser of a program that measures, with the table to write and an option for each of `defaults`.

    Args:
        documentation: the program's own.
        on_device: whether there are options for the device and the type to compute with.
        defaults: by the name of the option, see `MEANINGS`. An option has the type of its default: mappings are JSON,
            sequences take several values, False makes a switch. With `mechanisms` there is `--names`, too.
    """
    result = program.parser(documentation)
    result.add_argument("--out", type=program.file_to_write, required=True, metavar="FILE", help="CSV file to write")
    if on_device:
        place, dtype = ("cuda", "bfloat16") if torch.cuda.is_available() else ("cpu", "float32")
        result.add_argument("--device", choices=["cpu", "cuda"], default=place, help="the GPU if any")
        result.add_argument(
            "--dtype",
            choices=["float32", "bfloat16", "float16"],
            default=dtype,
            help="type of the inputs, or of the forward pass in training (bfloat16 on a GPU)",
        )
    for name, default in defaults.items():
        flag, meaning = f"--{name.replace('_', '-')}", MEANINGS[name]
        if default is False:
            result.add_argument(flag, action="store_true", help=meaning)
        elif isinstance(default, dict):
            result.add_argument(flag, type=program.json_value, default=default, metavar="JSON", help=meaning)
        elif isinstance(default, list | tuple):
            text = f"{meaning} ({' '.join(map(str, default))})"
            result.add_argument(flag, nargs="+", type=type(default[0]), default=default, help=text)
        else:
            result.add_argument(flag, type=type(default), default=default, help=f"{meaning} ({default})")
    if "mechanisms" in defaults:
        result.add_argument("--names", nargs="+", metavar="NAME", help="mechanisms to measure (all)")
    return result


def arguments_of(options: argparse.ArgumentParser, argv: Sequence[str] | None) -> dict[str, Any]:
    """Return the values of the options in `argv`, and of all mechanisms those that are named.

    Raises:
        ConfigError: a named mechanism is not there.
    """
    arguments = vars(options.parse_args(argv))
    if names := arguments.pop("names", None):
        mechanisms = arguments["mechanisms"]
        if unknown := sorted(set(names) - set(mechanisms)):
            raise ConfigError(
                f"--names {' '.join(unknown)}: no mechanism has that name. Expected some of: {', '.join(mechanisms)}. "
                "Add others with --mechanisms."
            )
        arguments["mechanisms"] = {name: mechanisms[name] for name in names}
    return arguments


def of_the_grid() -> dict[str, dict[str, Any]]:
    """Return the mechanisms of the full grid: parameters by name."""
    return read_mapping(GRID)["experiment"]["mechanisms"]


def measure(
    options: argparse.ArgumentParser, function: Callable[..., pd.DataFrame], argv: Sequence[str] | None
) -> None:
    """Write what `function` returns for the options in `argv`."""
    arguments = arguments_of(options, argv)
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


def run(file: str) -> int:
    """Run the program at `file` as the module that other processes find its classes in, and let it log."""
    logging.getLogger("benchmarks").setLevel(logging.INFO)
    return program.run(import_module(f"benchmarks.{Path(file).stem}").main)
