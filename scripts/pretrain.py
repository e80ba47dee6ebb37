"""Train a model by masked language modelling on the pretraining corpus.

Reads the run's settings (a `config.yaml`, or the same as JSON in place), the tokenised splits and the tokeniser they
name, and the weights it starts from. Writes config.yaml, model/, history.csv, run.json to a new folder.
To repeat a run by hand: python scripts/pretrain.py --config results/runs/.../config.yaml --out FOLDER
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.core.settings.run import MlmRun
from lib.training.masked_lm import train_masked_lm


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    train_masked_lm(*program.read_run(__doc__, MlmRun, argv))


if __name__ == "__main__":
    sys.exit(program.run(main))
