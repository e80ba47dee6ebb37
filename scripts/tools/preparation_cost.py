"""Measure the cost of preparing raw text: megabytes of text per second and core, and peak memory.

At full size it needs about 6 GB on the disk, 1.5 GB of memory, and a few minutes.

python scripts/tools/preparation_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.preparation_cost import preparation_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options.measure(options.parser(__doc__, megabytes=2000), preparation_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
