"""Write the spans that a run found in its test documents as a submission to the UNLP 2025 shared task.

python scripts/tools/submission.py --run results/runs/.../seed-1 --out submission.csv
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.results.predictions import write_submission


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--run", required=True, metavar="FOLDER", help="folder of a run of span_detection")
    parser.add_argument("--out", default="submission.csv", metavar="FILE", help="CSV with id and trigger_words")
    arguments = parser.parse_args(argv)
    write_submission(arguments.run, arguments.out)


if __name__ == "__main__":
    sys.exit(program.run(main))
