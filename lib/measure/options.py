"""What the measuring programs of `scripts/` share: their options, and how they write tables."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lib.core import program
from lib.core.files import read_mapping, write_text

GRID = Path(__file__).parents[2] / "config" / "config.yaml"


def table_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option of all programs that measure: the table to write.

    Args:
        documentation: the program's own.
    """
    parser = program.parser(documentation)
    parser.add_argument("--out", required=True, metavar="FILE", help="CSV file to write")
    return parser


def device_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of the programs that measure on a device: that, the type and the output.

    Args:
        documentation: the program's own.
    """
    parser = table_parser(documentation)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu", help="the GPU if any")
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        default="bfloat16" if on_gpu else "float32",
        help="type of the inputs, or of the forward pass in training (bfloat16 on a GPU)",
    )
    return parser


def cost_parser(documentation: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of the programs that measure costs: mechanisms, and those of `device_parser`.

    Args:
        documentation: the program's own.
    """
    parser = device_parser(documentation)
    add_mechanisms(parser)
    return parser


def add_mechanisms(parser: argparse.ArgumentParser) -> None:
    """Add the option of the programs that go through mechanisms: their parameters.

    Args:
        parser: to add to.
    """
    text = "parameters by name (those of config/config.yaml)"
    parser.add_argument("--mechanisms", type=json.loads, default=of_the_grid(), metavar="JSON", help=text)


def of_the_grid() -> dict[str, dict[str, Any]]:
    """Return the mechanisms of the full grid: parameters by name."""
    return read_mapping(GRID)["experiment"]["mechanisms"]


def add_sizes(parser: argparse.ArgumentParser, lengths: Sequence[int]) -> None:
    """Add the options of the programs that measure mechanisms alone: heads, their width, and lengths.

    Args:
        parser: to add to.
        lengths: default lengths in tokens.
    """
    parser.add_argument("--heads", type=int, default=8, metavar="H", help="attention heads (8)")
    parser.add_argument("--head-size", type=int, default=64, metavar="D", help="width of a head (64)")
    add_lengths(parser, lengths)


def add_lengths(parser: argparse.ArgumentParser, lengths: Sequence[int]) -> None:
    """Add the option of the lengths to measure at.

    Args:
        parser: to add to.
        lengths: default lengths in tokens.
    """
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths, metavar="N", help=f"tokens {lengths}")


def add_limits(parser: argparse.ArgumentParser, minutes: float, gibibytes: float = 8) -> None:
    """Add the options of the limits beyond which a pass is not measured, but said to be left out.

    Args:
        parser: to add to.
        minutes: default limit on time.
        gibibytes: default limit on memory.
    """
    for name, default, unit in (("minutes", minutes, "min"), ("gibibytes", gibibytes, "GiB")):
        text = f"leave out a pass that is expected to take more ({default:g} {unit})"
        parser.add_argument(f"--{name}", type=float, default=default, metavar="X", help=text)


def approximation_parser(documentation: str | None, head_size: int, seeds: Sequence[int]) -> argparse.ArgumentParser:
    """Return a parser with the options of the programs that measure approximations: head width, seeds and output.

    Args:
        documentation: the program's own.
        head_size: default width of a head.
        seeds: default seeds.
    """
    parser = table_parser(documentation)
    parser.add_argument("--head-size", type=int, default=head_size, metavar="D", help=f"width of a head ({head_size})")
    parser.add_argument("--seeds", type=int, nargs="+", default=seeds, metavar="SEED", help="of inputs and draws")
    return parser


def write_table(path: str | Path, table: pd.DataFrame) -> None:
    """Write `table` as CSV, numbers with five digits, the same on every system.

    Args:
        path: file to appear.
        table: a row for each measurement.

    Raises:
        ProjectError: the file cannot be written.
    """
    write_text(path, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
