"""Write the spans that a run found in its test documents as a submission to the UNLP 2025 shared task.

python studies/decoders/scripts/submission.py --run results/runs/.../seed-1 --out submission.csv
"""

from pathlib import Path

import pandas as pd

from lib.core import program
from lib.core.errors import DataError
from lib.core.files import atomic_path
from lib.core.record import PREDICTIONS
from lib.results.predictions import finds_spans, load_predictions


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--run", required=True, metavar="FOLDER", help="folder of a run of span_detection")
    parser.add_argument(
        "--out",
        type=program.file_to_write,
        default="submission.csv",
        metavar="FILE",
        help="CSV with id and trigger_words",
    )
    arguments = parser.parse_args(argv)
    write_submission(arguments.run, arguments.out)


def write_submission(folder: str | Path, target: str | Path) -> None:
    """Write the spans that a run found in its test documents as the UNLP 2025 shared task takes them.

    Args:
        folder: of the run.
        target: CSV to appear; `trigger_words` is the text of a list of pairs, `[(0, 12), (27, 46)]`, or `[]`.

    Raises:
        DataError: the run's predictions cannot be read, or are no spans.
    """
    documents = load_predictions(folder, ["id", "prediction"])
    if not finds_spans(folder):
        raise DataError(f"{Path(folder) / PREDICTIONS}: holds no spans. Expected those of a run of span_detection.")
    spans = [str([tuple(span.tolist()) for span in found]) for found in documents["prediction"]]
    with atomic_path(target) as partial:
        pd.DataFrame({"id": documents["id"], "trigger_words": spans}).to_csv(partial, index=False)


if __name__ == "__main__":
    program.start(main)
