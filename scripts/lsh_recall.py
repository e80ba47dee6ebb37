"""Measure the share of exact attention that the windows of LSH catch, on generated inputs.

Out: a CSV file, one row per input, chunk size, number of hashes, way to sort (by LSH or at random) and seed.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import approximation
from lib.measure.options import approximation_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = approximation_parser(__doc__, approximation.HEAD_SIZE, approximation.SEEDS)
    parser.add_argument("--length", type=int, default=approximation.LENGTH, help="tokens")
    parser.add_argument("--chunk-sizes", type=int, nargs="+", default=approximation.CHUNK_SIZES, help="tokens")
    parser.add_argument("--hashes", type=int, nargs="+", default=approximation.HASHES, help="rounds")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, approximation.lsh_recall(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
