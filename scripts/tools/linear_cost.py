"""Measure how many times as fast a training step is where oneDNN computes the linear layers, on one thread of the CPU.

python scripts/tools/linear_cost.py --length 256 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.linear_cost import MODELS, linear_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options.measure(options.parser(__doc__, models=MODELS, length=256, tokens=2_048, turns=5), linear_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
