"""Summarise measurements as Markdown from their table, or from several as one.

python scripts/measure_summary.py training_cost --table FILE --out FILE
"""

import sys
from collections.abc import Sequence

import pandas as pd

from lib.core import program
from lib.core.files import write_text
from lib.measure.summaries import (
    adaptation_summary,
    attention_summary,
    encoder_summary,
    memory_summary,
    sequence_summary,
    training_summary,
)
from lib.measure.tables import read_table

SUMMARIES = {
    "attention_cost": attention_summary,
    "training_cost": training_summary,
    "encoder_cost": encoder_summary,
    "sequence_cost": sequence_summary,
    "memory_cost": memory_summary,
    "adaptation_cost": adaptation_summary,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("summary", choices=SUMMARIES, help="what to sum up")
    parser.add_argument(
        "--table", nargs="+", required=True, metavar="FILE", help="CSV files of the program of the same name"
    )
    parser.add_argument(
        "--out", type=program.file_to_write, required=True, metavar="FILE", help="Markdown file to write"
    )
    arguments = parser.parse_args(argv)
    table = pd.concat([read_table(path, arguments.summary) for path in arguments.table], ignore_index=True)
    write_text(arguments.out, SUMMARIES[arguments.summary](table))


if __name__ == "__main__":
    sys.exit(program.run(main))
