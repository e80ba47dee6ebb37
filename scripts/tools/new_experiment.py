"""Write the configuration of a new run that is started by hand.

python scripts/tools/new_experiment.py pretrain first --model lsh-h2-c64
python scripts/tools/new_experiment.py finetune first-imdb --dataset imdb --start pretrain/first
python scripts/tools/new_experiment.py pretrain second --resume pretrain/first

Prints the folder of the experiment and the command that runs it. You may edit its config.yaml first (config/README.md
describes its keys).
"""

import logging
import shlex
import sys
from collections.abc import Sequence

from lib.core import program
from lib.study.configuration import load_study, read_layers
from lib.workflow.commands.experiments import new_experiment, resumed_experiment
from lib.workflow.planning.plan import Plan


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.study_parser(__doc__)
    parser.add_argument("stage", help="stage of the study, such as pretrain or finetune")
    parser.add_argument("name", help="name of the new experiment; its folder is EXPERIMENTS/STAGE/NAME")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", help="model of the study, as in its configuration")
    source.add_argument("--start", metavar="RUN", help="start from the weights of this run: STAGE/NAME or a folder")
    source.add_argument("--resume", metavar="RUN", help="resume this run, finished or not, with its configuration")
    parser.add_argument("--dataset", help="dataset of the stage; needed if it has several")
    parser.add_argument("--experiments", default="experiments", metavar="FOLDER", help="folder of all experiments")
    arguments = parser.parse_args(argv)
    stage, name = arguments.stage, arguments.name
    if arguments.resume:
        if arguments.dataset:
            parser.error("--dataset with --resume: the dataset comes from the resumed run. Leave it out.")
        path = resumed_experiment(arguments.experiments, stage, name, arguments.resume)
    else:
        path = new_experiment(
            Plan(load_study(read_layers(arguments.configfile))),
            arguments.experiments,
            stage,
            name,
            model=arguments.model,
            dataset=arguments.dataset,
            start=arguments.start,
        )
    command = shlex.join(["python", "scripts/train.py", "--config", str(path), "--out", str(path.parent)])
    logging.getLogger("lib").info("wrote %s; run: %s", path, command)


if __name__ == "__main__":
    sys.exit(program.run(main))
