"""Measure the cost of a layer per token of one sequence, recurrent layers beside attention.

python scripts/sequence_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --encoder '{...}' --out FILE
"""

import json
import sys
from collections.abc import Sequence

from lib.backbones.encoder.parameters import Parameters as Encoder
from lib.core import program
from lib.measure.options import add_lengths, add_limits, cost_parser, write_table
from lib.measure.sequence_cost import LENGTHS, sequence_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = cost_parser(__doc__)
    parser.add_argument("--encoder", type=json.loads, default={}, metavar="JSON", help="sizes of the layers")
    add_lengths(parser, LENGTHS)
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="time to repeat a row in (0.5)")
    add_limits(parser, minutes=1)
    arguments = vars(parser.parse_args(argv))
    out, encoder = arguments.pop("out"), Encoder(**arguments.pop("encoder"))
    write_table(out, sequence_cost(encoder=encoder, **arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
