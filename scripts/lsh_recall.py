"""Measure which share of exact attention the windows of LSH attention catch, on made inputs.

Out: a CSV file, a row for each input, chunk size, number of hashes, way to sort (by LSH or at random) and seed.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.core.files import write_text
from lib.measure import approximation


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--length", type=int, default=approximation.LENGTH, help="tokens")
    parser.add_argument("--chunk-sizes", type=int, nargs="+", default=approximation.CHUNK_SIZES, help="tokens")
    parser.add_argument("--hashes", type=int, nargs="+", default=approximation.HASHES, help="rounds")
    parser.add_argument("--head-size", type=int, default=approximation.HEAD_SIZE, help="width of a head")
    parser.add_argument("--seeds", type=int, nargs="+", default=approximation.SEEDS, help="of inputs and rotations")
    parser.add_argument("--out", required=True, metavar="FILE", help="CSV file to write")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    table = approximation.lsh_recall(**arguments)
    write_text(out, table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))


if __name__ == "__main__":
    sys.exit(program.run(main))
