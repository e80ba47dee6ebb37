"""Measure the share of exact attention within the windows of LSH, on generated inputs.

Out: a CSV file, one row per input, chunk size, number of hashes, order (LSH or random) and seed.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.lsh_recall import CHUNK_SIZES, HASHES, HEAD_SIZE, LENGTH, SEEDS, lsh_recall


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__, length=LENGTH, chunk_sizes=CHUNK_SIZES, hashes=HASHES, head_size=HEAD_SIZE, seeds=SEEDS
    )
    options.measure(parser, lsh_recall, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
