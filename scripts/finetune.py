"""Fine-tune an adapted model for classification and test its best epoch once.

Reads the run's settings (a `config.yaml`, or the same as JSON in place), the tokenised splits and the tokeniser they
name, and the weights it starts from. Writes config.yaml, model/, history.csv, run.json and predictions.parquet
to a new folder.
To repeat a run by hand: python scripts/finetune.py --config results/runs/.../config.yaml --out FOLDER
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.core.settings.finetune_run import FinetuneRun
from lib.training.finetune import finetune


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    finetune(*program.read_run(__doc__, FinetuneRun, argv))


if __name__ == "__main__":
    sys.exit(program.run(main))
