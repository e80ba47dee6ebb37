"""Draw one figure of a study from the records of finished runs.

python scripts/figure.py --figure JSON --records FILE ... --out FILE ...

JSON says what the figure shows: `stage`, `column`, `baseline`, `datasets`, `models` in order, their `families`, which
colour them, and `timed` (for each model the pairs of stage and model whose training times are added up).
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.figures import save_figure, score_time_figure
    from lib.results.records import load_runs

    parser = program.parser(__doc__)
    parser.add_argument("--figure", required=True, type=json.loads, metavar="JSON", help="what the figure shows")
    parser.add_argument("--records", required=True, nargs="+", metavar="FILE", help="run.json of each run")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    shown = arguments.figure
    figure = score_time_figure(
        load_runs(Path(record).parent for record in arguments.records),
        stage=shown["stage"],
        column=shown["column"],
        timed=shown["timed"],
        families={model: shown["families"][model] for model in shown["models"]},
        datasets=shown["datasets"],
        baseline=shown["baseline"],
    )
    save_figure(figure, arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
