"""Draw one figure of a study from the records of finished runs.

python scripts/figure.py --figure JSON --records FILE ... --out FILE ...

JSON says what the figure shows: `kind`, `stage`, `datasets`, `models` in order, and their `families`, which colour
them. One of kind `score_time` also has `column`, `baseline` and `timed` (for each model the pairs of stage and model
whose training times are added up); one of kind `group_score` has `labels` by dataset, `chance` and `trained_to`.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.results.figures import group_score_figure, save_figure, score_time_figure
    from lib.results.records import load_runs

    parser = program.parser(__doc__)
    parser.add_argument("--figure", required=True, type=json.loads, metavar="JSON", help="what the figure shows")
    parser.add_argument("--records", required=True, nargs="+", metavar="FILE", help="run.json of each run")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    shown = arguments.figure
    kinds: dict[str, Callable[..., Any]] = {"score_time": score_time_figure, "group_score": group_score_figure}
    draw = kinds[shown.pop("kind")]
    # JSON keeps no order of keys.
    shown["families"] = {model: shown["families"][model] for model in shown.pop("models")}
    figure = draw(load_runs(Path(record).parent for record in arguments.records), **shown)
    save_figure(figure, arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
