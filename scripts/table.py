"""Make one table of the comparison, as CSV and as Markdown, from the records of finished runs.

python scripts/table.py token_lengths --datasets wikipedia imdb --lengths FILE FILE ...
python scripts/table.py pretrain|tapt|finetune --runs FOLDER ... --models NAME ... --datasets NAME ...
python scripts/table.py f1 --runs FOLDER ... --baselines FOLDER ... --models NAME ... --datasets NAME ...
python scripts/table.py baseline --baselines FOLDER
"""

import sys
from collections.abc import Sequence
from typing import get_args

from lib.core import program
from lib.core.record import Stage
from lib.results.records import load_baselines, load_runs
from lib.results.tables import baseline_table, f1_table, stage_table, token_lengths_table

OPTIONS = {
    "--lengths": {"nargs": "+", "metavar": "FILE", "help": "token lengths of each dataset, in the same order"},
    "--runs": {
        "nargs": "+",
        "metavar": "FOLDER",
        "help": "folders of finished runs; those of other stages are ignored",
    },
    "--baselines": {"nargs": "+", "metavar": "FOLDER", "help": "folders of the baseline, one a dataset"},
    "--models": {"nargs": "+", "metavar": "NAME", "help": "rows, in order"},
    "--datasets": {"nargs": "+", "metavar": "NAME", "help": "datasets, in order"},
}
NEEDS = {
    "token_lengths": ("--lengths", "--datasets"),
    **dict.fromkeys(get_args(Stage), ("--runs", "--models", "--datasets")),
    "f1": ("--runs", "--baselines", "--models", "--datasets"),
    "baseline": ("--baselines",),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    tables = parser.add_subparsers(dest="table", required=True, metavar="TABLE", help=", ".join(NEEDS))
    for name, needs in NEEDS.items():
        table = tables.add_parser(name)
        for option in needs:
            table.add_argument(option, required=True, **OPTIONS[option])
        if "--runs" in needs:
            table.add_argument("--published", action="store_true", help="put the study's printed values beside ours")
        table.add_argument("--csv", required=True, metavar="FILE", help="table to write, as CSV")
        table.add_argument("--markdown", required=True, metavar="FILE", help="table to write, as Markdown")
    arguments = parser.parse_args(argv)

    if arguments.table == "token_lengths":
        if len(arguments.lengths) != len(arguments.datasets):
            parser.error(
                f"{len(arguments.lengths)} --lengths for {len(arguments.datasets)} --datasets; expected as many"
            )
        table = token_lengths_table(dict(zip(arguments.datasets, arguments.lengths, strict=True)))
    elif arguments.table == "baseline":
        if len(arguments.baselines) != 1:
            parser.error(f"{len(arguments.baselines)} --baselines; expected one, a table each")
        (report,) = load_baselines(arguments.baselines).values()
        table = baseline_table(report)
    else:
        runs, grid = load_runs(arguments.runs), (arguments.models, arguments.datasets)
        if arguments.table == "f1":
            table = f1_table(runs, load_baselines(arguments.baselines), *grid, show_published=arguments.published)
        else:
            table = stage_table(runs, arguments.table, *grid, show_published=arguments.published)
    table.write(arguments.csv, arguments.markdown)


if __name__ == "__main__":
    sys.exit(program.run(main))
