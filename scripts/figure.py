"""Draw one figure of a study, from the records of finished runs.

python scripts/figure.py --figure JSON --records FILE ... --out FILE ...

JSON has the figure's `settings`, as in `report.figures`, and its `scope`: the fields of `lib.results.scope.Scope`
except its files.
"""

import json
import sys
from collections.abc import Sequence

from lib.core import program
from lib.results.parameters import FIGURES


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.records import versions_note
    from lib.results.scope import scope
    from lib.results.style import save_figure

    parser = program.parser(__doc__)
    parser.add_argument("--figure", required=True, type=json.loads, metavar="JSON", help="what the figure shows")
    parser.add_argument(
        "--records", required=True, nargs="+", metavar="FILE", help="run.json of each run, or JSON of token lengths"
    )
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    settings = FIGURES.parse(arguments.figure["settings"])
    figure = FIGURES.load(settings.kind, "figure").draw(settings, scope(arguments.figure["scope"], arguments.records))
    save_figure(figure, arguments.out, versions_note(arguments.records))


if __name__ == "__main__":
    sys.exit(program.run(main))
