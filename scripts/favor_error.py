"""Measure how far FAVOR+ is from exact softmax attention, over features, norms and lengths, on generated inputs.

Out: a CSV file, one row per estimator, number of features, norm, length and seed.
"""

import sys
from collections.abc import Sequence

from pydantic import ValidationError

from lib.core import program
from lib.measure import approximation
from lib.measure.options import approximation_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = approximation_parser(__doc__, approximation.HEAD_SIZE, approximation.SEEDS)
    parser.add_argument("--norms", type=float, nargs="+", default=approximation.NORMS, help="of queries and keys")
    parser.add_argument("--lengths", type=int, nargs="+", default=approximation.LENGTHS, help="tokens")
    parser.add_argument("--features", type=int, nargs="+", default=approximation.FEATURES, help="columns, even")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    try:
        table = approximation.favor_error(**arguments)
    except ValidationError as error:
        parser.error(str(error))
    write_table(out, table)


if __name__ == "__main__":
    sys.exit(program.run(main))
