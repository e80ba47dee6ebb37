"""The command line of the programs that make a table or a figure."""

import argparse
from collections.abc import Sequence
from typing import Any

from lib.core import program
from lib.core.kinds import Axis
from lib.results.scope import scope


def result_arguments(
    axis: Axis[Any], noun: str, documentation: str | None, argv: Sequence[str] | None
) -> argparse.Namespace:
    """Return the arguments of a program that makes one result from the records of runs.

    Args:
        axis: of the result's kinds.
        noun: what the result is called, and the option that describes it.
        documentation: of the program.
        argv: its arguments; None = those of the command line.

    Returns:
        `settings` (typed), `scope`, `records` and `out` (paths).
    """
    parser = program.parser(documentation)
    parser.add_argument(
        f"--{noun}", required=True, type=program.json_value, metavar="JSON", help=f"what the {noun} shows"
    )
    parser.add_argument(
        "--records", required=True, nargs="+", metavar="FILE", help="run.json of each run, or files on texts"
    )
    parser.add_argument(
        "--out", required=True, nargs="+", metavar="FILE", help="files to write, in the format that each suffix names"
    )
    arguments = parser.parse_args(argv)
    shown = getattr(arguments, noun)
    arguments.settings = axis.parse(shown["settings"])
    arguments.scope = scope(shown["scope"], arguments.records)
    return arguments
