"""Write the configuration of a new experiment, to be run by hand.

python scripts/new_experiment.py pretraining -p NAME [-m MECHANISM] [-rp RESUMED]
python scripts/new_experiment.py finetuning -f NAME -p PRETRAINED -d DATASET

The folder of the experiment is named in the answer; edit its config.yaml as you like, then run the command shown.
"""

import logging
import sys
from collections.abc import Sequence

from snakemake.utils import update_config

from lib.core import program
from lib.core.settings.study import load_study
from lib.workflow.experiments import new_finetuning, new_pretraining
from lib.workflow.plan import Plan


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    shared = program.parser(None)
    shared.add_argument("--experiments", default="experiments", metavar="FOLDER", help="folder of all experiments")
    shared.add_argument(
        "--configfile", nargs="+", default=[], metavar="FILE", help="laid over config/config.yaml, as with snakemake"
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    pretraining = kinds.add_parser("pretraining", parents=[shared], add_help=False)
    pretraining.add_argument("-p", dest="name", required=True, metavar="NAME", help="new name")
    pretraining.add_argument(
        "-m", dest="mechanism", default="sdpa", help="attention mechanism, as in the configuration"
    )
    pretraining.add_argument("-rp", dest="resumed", metavar="RESUMED", help="pretraining experiment to go on from")
    finetuning = kinds.add_parser("finetuning", parents=[shared], add_help=False)
    finetuning.add_argument("-f", dest="name", required=True, metavar="NAME", help="new name")
    finetuning.add_argument(
        "-p", dest="pretrained", required=True, help="pretraining experiment, or the folder of any finished run"
    )
    finetuning.add_argument("-d", dest="dataset", default="imdb", help="dataset, as in the configuration")
    arguments = parser.parse_args(argv)

    values = {}
    for path in ("config/config.yaml", *arguments.configfile):
        update_config(values, program.read_mapping(path))
    plan = Plan(load_study(values))
    if arguments.kind == "pretraining":
        stage = "pretrain"
        path = new_pretraining(plan, arguments.experiments, arguments.name, arguments.mechanism, arguments.resumed)
    else:
        stage = "finetune"
        path = new_finetuning(plan, arguments.experiments, arguments.name, arguments.pretrained, arguments.dataset)
    logging.getLogger("lib").info(
        "wrote %s; run: python scripts/%s.py --config %s --out %s", path, stage, path, path.parent
    )


if __name__ == "__main__":
    sys.exit(program.run(main))
