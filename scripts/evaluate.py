"""Evaluate a trained model, or a baseline without a training loop.

Reads the run's settings (a `config.yaml`, or JSON) and the inputs named there: tokenised
splits, tokeniser and trained weights of a model, or the prepared documents for a baseline.
Writes config.yaml, run.json and predictions.parquet to a new folder.
To repeat a run by hand: python scripts/evaluate.py --config results/runs/.../config.yaml --out FOLDER
"""

from lib.core import program
from lib.study.arguments import read_run


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    from lib.training.evaluate import evaluate

    evaluate(*read_run(__doc__, argv))


if __name__ == "__main__":
    program.start(main)
