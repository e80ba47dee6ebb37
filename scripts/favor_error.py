"""Measure how far FAVOR+ is from exact softmax attention, over features, norms and lengths, on made inputs.

Out: a CSV file, a row for each estimator, number of features, norm, length and seed.
"""

import sys
from collections.abc import Sequence

from pydantic import ValidationError

from lib.core import program
from lib.core.files import write_text
from lib.measure import approximation


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--norms", type=float, nargs="+", default=approximation.NORMS, help="of queries and keys")
    parser.add_argument("--lengths", type=int, nargs="+", default=approximation.LENGTHS, help="tokens")
    parser.add_argument("--features", type=int, nargs="+", default=approximation.FEATURES, help="columns, even")
    parser.add_argument("--head-size", type=int, default=approximation.HEAD_SIZE, help="width of a head")
    parser.add_argument("--seeds", type=int, nargs="+", default=approximation.SEEDS, help="of inputs and draws")
    parser.add_argument("--out", required=True, metavar="FILE", help="CSV file to write")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    try:
        table = approximation.favor_error(**arguments)
    except ValidationError as error:
        parser.error(str(error))
    write_text(out, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))


if __name__ == "__main__":
    sys.exit(program.run(main))
