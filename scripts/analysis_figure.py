"""Show the result of an analysis from its table: a figure, and its main numbers as Markdown, LaTeX and HTML.

python scripts/analysis_figure.py --analysis '{"kind": "heads", "families": [["sdpa", "sdpa"], ...]}' --table FILE
    --summary FILE ... --out FILE ...

`families` lists the models in order, each with the family that decides its colour; `generated` lists
the analysed data whose texts are generated, if any.
"""

import dataclasses

from lib.analysis.settings import ANALYSES
from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.analysis.table import read_analysis
    from lib.results.scope import generated_note
    from lib.results.style import save_figure

    parser = program.parser(__doc__)
    parser.add_argument("--analysis", required=True, type=program.json_value, metavar="JSON", help="kind and models")
    parser.add_argument("--table", required=True, metavar="FILE", help="CSV file of scripts/analyse.py")
    parser.add_argument("--summary", required=True, nargs="+", metavar="FILE", help="to write: .md, .tex, .html")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    kind = ANALYSES.load(arguments.analysis["kind"], "figure")
    frame = read_analysis(arguments.table)
    note = generated_note(arguments.analysis.get("generated", []))
    save_figure(kind.draw(frame, dict(arguments.analysis["families"])), arguments.out, note)
    table = kind.summarise(frame)
    dataclasses.replace(table, note=" ".join(filter(None, [table.note, note])) or None).write(arguments.summary)


if __name__ == "__main__":
    program.start(main)
