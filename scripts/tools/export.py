"""Write a trained model in the classes of transformers, so that other programs read it without this project.

python scripts/tools/export.py --model results/runs/finetune/bert/imdb/seed-1/model --out bert-imdb
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program
from lib.workflow.commands.exporting import export


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="model folder of a run")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the new folder")
    parser.add_argument("--encoder", action="store_true", help="without the head and the adapters")
    parser.add_argument("--base", metavar="NAME", help="model that the adapters belong to, as others find it")
    arguments = parser.parse_args(argv)
    files = export(Path(arguments.model), Path(arguments.out), encoder=arguments.encoder, base=arguments.base)
    print(f"{arguments.out}: {', '.join(files)}")


if __name__ == "__main__":
    sys.exit(program.run(main))
