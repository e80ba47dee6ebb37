"""Make one table of a study, from the records of finished runs.

python scripts/table.py --table JSON --records FILE ... --out FILE ...

JSON has the table's `settings`, as in `report.tables`, and its `scope`: the fields of `lib.results.scope.Scope` except
its files. Files are .csv, .md, .tex or .html.
"""

import dataclasses

from lib.core import program
from lib.results.settings import TABLES


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.results.predictions import scores_note
    from lib.results.records import conditions_note, copies_note, shared_note
    from lib.results.scope import result_arguments

    arguments = result_arguments(TABLES, "table", __doc__, argv)
    table = arguments.settings.make(arguments.scope)
    of_scores = [scores_note, shared_note, copies_note] if arguments.settings.shows_test_scores else []
    notes = [table.note, arguments.scope.note, *(note(arguments.records) for note in (*of_scores, conditions_note))]
    dataclasses.replace(table, note=" ".join(filter(None, notes)) or None).write(arguments.out)


if __name__ == "__main__":
    program.start(main)
