"""Fit TF-IDF with logistic regression on a prepared dataset, and report how well it does on validation and test.

In: Parquet files (id, text, label) of the three splits. Out: report.json and predictions.parquet in the folder.
"""

import sys
from collections.abc import Sequence

from pydantic import ValidationError

from lib.core import program
from lib.core.settings.baseline import Baseline
from lib.evaluation.baseline import run_baseline


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--dataset", required=True, help="name of the dataset, for the report")
    for split in ("train", "validation", "test"):
        parser.add_argument(f"--{split}", required=True, metavar="FILE", help=f"Parquet file of the {split} documents")
    parser.add_argument("--labels", required=True, nargs="+", help="names of the classes, in order of their numbers")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of report.json and predictions.parquet")
    for name, field in Baseline.model_fields.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=field.annotation, default=field.default, help=field.description)
    arguments = parser.parse_args(argv)
    try:
        settings = Baseline(**{name: getattr(arguments, name) for name in Baseline.model_fields})
    except ValidationError as error:
        parser.error(str(error))
    run_baseline(
        dataset=arguments.dataset,
        train=arguments.train,
        validation=arguments.validation,
        test=arguments.test,
        label_names=arguments.labels,
        settings=settings,
        folder=arguments.out,
    )


if __name__ == "__main__":
    sys.exit(program.run(main))
