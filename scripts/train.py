"""Train a model: one run of one stage, for any task and backbone.

Reads the run's settings (a `config.yaml`, or JSON), its tokenised splits, tokeniser and initial weights. Writes
config.yaml, model/, history.csv and run.json to a new folder; also predictions.parquet if the task predicts, and
geometry.csv if the stage measures geometry. To repeat a run by hand: python scripts/train.py --config
results/runs/.../config.yaml --out FOLDER On several GPUs of a machine: python -m torch.distributed.run --standalone
--nproc-per-node 2 -- scripts/train.py ...
"""

from lib.core import program
from lib.study.arguments import read_run


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    from lib.training import distributed

    run = read_run(__doc__, argv)
    with distributed.joined():
        from lib.training.run import train

        train(*run)


if __name__ == "__main__":
    program.start(main)
