"""Draw a figure of measurements, from their table alone.

python scripts/measure_figure.py attention_time|sequence_time|... --table FILE --out FILE ...
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.approximation_figures import FAVOR_COLUMNS, LSH_COLUMNS, favor_error_figure, lsh_recall_figure
from lib.measure.cost_figures import attention_memory_figure, attention_time_figure
from lib.measure.length_figures import memory_length_figure, sequence_time_figure
from lib.measure.tables import ATTENTION_COLUMNS, MEMORY_COLUMNS, SEQUENCE_COLUMNS, read_table
from lib.results.style import save_figure

FIGURES = {
    "attention_time": (attention_time_figure, ATTENTION_COLUMNS),
    "attention_memory": (attention_memory_figure, ATTENTION_COLUMNS),
    "sequence_time": (sequence_time_figure, SEQUENCE_COLUMNS),
    "memory_length": (memory_length_figure, MEMORY_COLUMNS),
    "favor_error": (favor_error_figure, FAVOR_COLUMNS),
    "lsh_recall": (lsh_recall_figure, LSH_COLUMNS),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("figure", choices=FIGURES, help="what to draw")
    parser.add_argument("--table", required=True, metavar="FILE", help="CSV file of the program that measured it")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    draw, columns = FIGURES[arguments.figure]
    save_figure(draw(read_table(arguments.table, columns)), arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
