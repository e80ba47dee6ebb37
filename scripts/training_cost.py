"""Measure the cost of training: a step of masked language modelling, and an epoch of fine-tuning, beside BERT's.

All inputs are random ids; those of the epoch are as long as IMDb's reviews.

Without further options it measures all mechanisms of config/config.yaml in an encoder of BERT-small's sizes. On a GPU
it needs only torch, transformers, pydantic and pandas, and also measures the Triton kernels of mechanisms that have
them.

python scripts/training_cost.py --out FILE
"""

import json
import sys
from collections.abc import Sequence

import torch

from lib.backbones.encoder.parameters import Parameters as Encoder
from lib.core import program
from lib.measure.options import cost_parser, write_table
from lib.measure.training_cost import training_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    batch, documents = (64, 4096) if on_gpu else (4, 64)
    parser = cost_parser(__doc__)
    parser.add_argument(
        "--encoder", type=json.loads, default={}, metavar="JSON", help="sizes and dropouts of the models"
    )
    parser.add_argument("--batch", type=int, default=batch, metavar="B", help=f"sequences of a step ({batch})")
    parser.add_argument(
        "--documents", type=int, default=documents, metavar="D", help=f"documents of an epoch ({documents})"
    )
    parser.add_argument(
        "--document-batch", type=int, default=batch, metavar="B", help=f"documents of a batch ({batch})"
    )
    repetitions = 20 if on_gpu else 3
    parser.add_argument(
        "--repetitions", type=int, default=repetitions, metavar="R", help="repetitions of a step (3; on a GPU 20)"
    )
    arguments = vars(parser.parse_args(argv))
    out, encoder = arguments.pop("out"), Encoder(**arguments.pop("encoder"))
    write_table(out, training_cost(encoder=encoder, **arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
