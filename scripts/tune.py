"""Tune a model by a sequence of trainings, each with settings chosen from the scores of earlier ones.

Reads the settings of the search (a `config.yaml`, or JSON) and the inputs of scripts/train.py.
Writes config.yaml, trials.csv, best.json and run.json to a new folder; best.json has the settings of the best trial by
dotted name; `scripts/train.py --settings-from` applies them to a run. To repeat a search by hand: python
scripts/tune.py --config results/runs/.../config.yaml --out FOLDER
"""

from lib.core import program
from lib.core.extensions import load, part
from lib.study.arguments import read_run


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    from lib.study.tuning import TunedRun

    load(part("lib.training.tuning")).tune(*read_run(__doc__, argv, TunedRun))


if __name__ == "__main__":
    program.start(main)
