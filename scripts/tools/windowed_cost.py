"""Measure a published encoder with windowed layers, compared with transformers: ModernBERT-base, random weights.

OMP_NUM_THREADS=1 python scripts/tools/windowed_cost.py --lengths 4096 8192 --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.windowed_cost import windowed_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(__doc__, lengths=(4_096, 8_192), encoder={}, trains=False, repetitions=5)
    options.measure(parser, windowed_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
