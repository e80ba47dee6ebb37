"""Draw the figure of an analysis and sum up its main numbers as Markdown, from its table alone.

python scripts/analysis_figure.py --look '{"kind": "heads", "families": [["sdpa", "sdpa"], ...]}' --table FILE
    --markdown FILE --out FILE ...

`families` lists the models in order, each with the family that decides its colour.
"""

import json
import sys
from collections.abc import Sequence

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.analyses import FIGURES, read_analysis, summary
    from lib.results.style import save_figure

    parser = program.parser(__doc__)
    parser.add_argument("--look", required=True, type=json.loads, metavar="JSON", help="kind and models")
    parser.add_argument("--table", required=True, metavar="FILE", help="CSV file of scripts/analyse.py")
    parser.add_argument(
        "--summary", required=True, nargs="+", metavar="FILE", help="summary to write: .md, .tex, .html"
    )
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    kind, families = arguments.look["kind"], dict(arguments.look["families"])
    frame = read_analysis(arguments.table)
    save_figure(FIGURES[kind](frame, families), arguments.out)
    summary(kind, frame).write(arguments.summary)


if __name__ == "__main__":
    sys.exit(program.run(main))
