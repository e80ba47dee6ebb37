"""Measure the cost of preparing raw text: megabytes of text per second and core, and peak memory.

At full size it needs about 6 GB on the disk, 1.5 GB of memory, and a few minutes.

python scripts/preparation_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.options import table_parser, write_table
from lib.measure.preparation_cost import preparation_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = table_parser(__doc__)
    parser.add_argument(
        "--megabytes", type=int, default=2000, metavar="MB", help="size of the XML (2000); the shard has half of it"
    )
    arguments = parser.parse_args(argv)
    write_table(arguments.out, preparation_cost(arguments.megabytes))


if __name__ == "__main__":
    sys.exit(program.run(main))
