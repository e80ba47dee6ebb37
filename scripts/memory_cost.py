"""Measure the memory of attention over one sequence, beside the size of its N x N matrices.

python scripts/memory_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --heads 8 --head-size 64 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.memory_cost import LENGTHS, memory_cost
from lib.measure.options import add_limits, add_sizes, cost_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = cost_parser(__doc__)
    add_sizes(parser, LENGTHS)
    add_limits(parser, minutes=3)
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, memory_cost(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
