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
    parser = program.parser(__doc__)
    parser.add_argument("--config", required=True, help="settings of the run: path of a YAML file, or JSON")
    parser.add_argument("--execution", help="execution settings in place of those in the config: a path, or JSON")
    parser.add_argument("--out", required=True, help="new folder of the results")
    parser.add_argument("--work", help="folder of working checkpoints while the run is under way; default beside OUT")
    arguments = parser.parse_args(argv)
    settings = program.read_mapping(arguments.config)
    if arguments.execution:
        settings["execution"] = program.read_mapping(arguments.execution)
    finetune(program.read_settings(FinetuneRun, settings), arguments.out, arguments.work)


if __name__ == "__main__":
    sys.exit(program.run(main))
