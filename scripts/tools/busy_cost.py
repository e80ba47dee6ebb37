"""Measure how a busy machine slows waiting threads down: our implementation and another one, in turns.

python scripts/tools/busy_cost.py --busy 0 8 --spins 300000 1000 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.busy_cost import busy_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__, spins=(300_000, 1_000), busy=(0, 8), mechanism="lsh-h4-c128", length=512, tokens=1_024, turns=3
    )
    options.measure(parser, busy_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
