"""Make one table of a study, as CSV and as Markdown, from the records of finished runs.

python scripts/table.py --table '{"kind": "stage", "stages": [["finetune", ["imdb"]]], "columns": ["f1"],
"models": [...]}' --records RUN.JSON ... --csv FILE --markdown FILE
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.records import load_runs
    from lib.results.tables import classes_table, groups_table, stage_table, token_lengths_table

    parser = program.parser(__doc__)
    parser.add_argument("--table", required=True, type=json.loads, metavar="JSON", help="what the table shows")
    parser.add_argument(
        "--records", required=True, nargs="+", metavar="FILE", help="run.json of each run, or JSON of token lengths"
    )
    parser.add_argument("--csv", required=True, metavar="FILE", help="table to write, as CSV")
    parser.add_argument("--markdown", required=True, metavar="FILE", help="table to write, as Markdown")
    arguments = parser.parse_args(argv)
    shown = arguments.table
    folders = [Path(record).parent for record in arguments.records]
    if shown["kind"] == "token_lengths":
        table = token_lengths_table(dict(zip(map(tuple, shown["corpora"]), arguments.records, strict=True)))
    elif shown["kind"] == "classes":
        table = classes_table(folders)
    elif shown["kind"] == "groups":
        ((stage, (dataset,)),) = shown["stages"]
        table = groups_table(load_runs(folders), stage, shown["models"], dataset, shown["group"])
    else:
        table = stage_table(
            load_runs(folders),
            dict(shown["stages"]),
            shown["columns"],
            shown["models"],
            owners=shown.get("owners"),
            show_published=shown.get("published", False),
        )
    table.write(arguments.csv, arguments.markdown)


if __name__ == "__main__":
    sys.exit(program.run(main))
