"""Measure how far FAVOR+ is from exact softmax attention, over features, norms and lengths, on generated inputs.

Out: a CSV file, one row per estimator, number of features, norm, length and seed.
"""

import sys
from collections.abc import Sequence

from pydantic import ValidationError

from lib.core import program
from lib.measure import options
from lib.measure.approximation import FAVOR, favor_error


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, **FAVOR)
    try:
        options.measure(parser, favor_error, argv)
    except ValidationError as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(program.run(main))
