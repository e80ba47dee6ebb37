"""Measure what a forward and backward pass of every attention mechanism costs, beside other people's.

python scripts/attention_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --heads 8 --head-size 64 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.attention_cost import LENGTHS, attention_cost
from lib.measure.options import add_sizes, cost_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = cost_parser(__doc__)
    add_sizes(parser, LENGTHS)
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="time to repeat a row in (1)")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, attention_cost(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
