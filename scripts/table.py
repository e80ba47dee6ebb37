"""Make one table of a study, from the records of finished runs.

python scripts/table.py --table JSON --records FILE ... --out FILE ...

JSON has the table's `settings`, as in `report.tables`, and its `scope`: the fields of `lib.results.scope.Scope`
except its files.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence

from lib.core import program
from lib.results.parameters import TABLES


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.records import versions_note
    from lib.results.scope import scope

    parser = program.parser(__doc__)
    parser.add_argument("--table", required=True, type=json.loads, metavar="JSON", help="what the table shows")
    parser.add_argument(
        "--records", required=True, nargs="+", metavar="FILE", help="run.json of each run, or JSON of token lengths"
    )
    parser.add_argument(
        "--out", required=True, nargs="+", metavar="FILE", help="files to write: .csv, .md, .tex, .html"
    )
    arguments = parser.parse_args(argv)
    settings = TABLES.parse(arguments.table["settings"])
    table = TABLES.load(settings.kind, "table").make(settings, scope(arguments.table["scope"], arguments.records))
    notes = [note for note in (table.note, versions_note(arguments.records)) if note]
    dataclasses.replace(table, note=" ".join(notes) or None).write(arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
