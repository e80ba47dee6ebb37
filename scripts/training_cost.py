"""Measure what training costs: a step of masked language modelling, and an epoch of fine-tuning, beside BERT's.

python scripts/training_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --encoder '{...}' --out FILE
"""

import json
import sys
from collections.abc import Sequence

import torch

from lib.backbones.encoder.settings import Encoder
from lib.core import program
from lib.core.files import atomic_path
from lib.measure.training_cost import training_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    parser = program.parser(__doc__)
    parser.add_argument("--mechanisms", required=True, type=json.loads, metavar="JSON", help="parameters by name")
    parser.add_argument(
        "--encoder", type=json.loads, default={}, metavar="JSON", help="sizes and dropouts of the models"
    )
    parser.add_argument("--batch", type=int, default=64 if on_gpu else 4, metavar="B", help="sequences of a step")
    parser.add_argument(
        "--documents", type=int, default=4096 if on_gpu else 64, metavar="D", help="reviews of an epoch"
    )
    parser.add_argument("--review-batch", type=int, default=64 if on_gpu else 4, metavar="B", help="reviews of a batch")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu", help="the GPU if any")
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        default="bfloat16" if on_gpu else "float32",
        help="type of the forward pass (bfloat16 on a GPU)",
    )
    parser.add_argument("--repetitions", type=int, default=3, metavar="R", help="repetitions of a step (3)")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    table = training_cost(arguments.pop("mechanisms"), Encoder(**arguments.pop("encoder")), **arguments)
    with atomic_path(out) as partial:
        table.to_csv(partial, index=False, float_format="%.5g")


if __name__ == "__main__":
    sys.exit(program.run(main))
