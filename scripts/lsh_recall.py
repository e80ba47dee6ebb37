"""Measure the share of exact attention within the windows of LSH, on generated inputs.

Out: a CSV file, one row per input, chunk size, number of hashes, order (LSH or random) and seed.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.approximation import LSH, lsh_recall


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options.measure(options.parser(__doc__, **LSH), lsh_recall, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
