"""Measure the memory of attention over one sequence, compared with the size of its N x N matrices.

python scripts/memory_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --heads 8 --head-size 64 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.length_cost import MEMORY_LENGTHS, memory_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid(),
        heads=8,
        head_size=64,
        lengths=MEMORY_LENGTHS,
        minutes=3.0,
        gibibytes=8.0,
    )
    options.measure(parser, memory_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
