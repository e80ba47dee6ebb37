"""Measure the cost of a forward and backward pass of every attention mechanism, beside other implementations.

Without further options it measures all mechanisms of config/config.yaml. On a GPU it needs only torch, transformers,
pydantic and pandas, and also measures the Triton kernels of mechanisms that have them.

python scripts/attention_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

import torch

from lib.core import program
from lib.measure.attention_cost import LENGTHS, attention_cost
from lib.measure.options import add_sizes, cost_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = cost_parser(__doc__)
    add_sizes(parser, LENGTHS)
    seconds = 0.25 if torch.cuda.is_available() else 1.0
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="S", help="time to repeat a row in (1; on a GPU 0.25)"
    )
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, attention_cost(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
