"""Draw a figure of measurements from their table.

python scripts/measure_figure.py attention_time|sequence_time|... --table FILE --out FILE ...
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import figures
from lib.measure.tables import read_table
from lib.results.style import save_figure

FIGURES = {
    "attention_time": (figures.attention_time_figure, "attention_cost"),
    "attention_memory": (figures.attention_memory_figure, "attention_cost"),
    "sequence_time": (figures.sequence_time_figure, "sequence_cost"),
    "memory_length": (figures.memory_length_figure, "memory_cost"),
    "favor_error": (figures.favor_error_figure, "favor_error"),
    "lsh_recall": (figures.lsh_recall_figure, "lsh_recall"),
}
"""Function of each figure, and its table."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("figure", choices=FIGURES, help="what to draw")
    parser.add_argument("--table", required=True, metavar="FILE", help="CSV file of the program that measured it")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    draw, table = FIGURES[arguments.figure]
    save_figure(draw(read_table(arguments.table, table)), arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
