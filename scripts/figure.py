"""Draw one figure of the comparison from the records of finished runs.

python scripts/figure.py f1_time --runs FOLDER ... --baselines FOLDER ... --models NAME ... --datasets NAME ...
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.results.figures import f1_time_figure, save_figure
from lib.results.records import load_baselines, load_runs


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    figures = parser.add_subparsers(dest="figure", required=True, metavar="FIGURE", help="f1_time")
    f1_time = figures.add_parser("f1_time", help="macro-F1 against training time, a panel a dataset")
    f1_time.add_argument("--runs", required=True, nargs="+", metavar="FOLDER", help="runs of tapt and finetune")
    f1_time.add_argument("--baselines", required=True, nargs="+", metavar="FOLDER", help="baselines, one a dataset")
    f1_time.add_argument("--models", required=True, nargs="+", metavar="NAME", help="models, in order")
    f1_time.add_argument("--datasets", required=True, nargs="+", metavar="NAME", help="panels, in order")
    f1_time.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    figure = f1_time_figure(
        load_runs(arguments.runs), load_baselines(arguments.baselines), arguments.models, arguments.datasets
    )
    save_figure(figure, arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
