"""Measure what a forward and backward pass of every attention mechanism costs, beside other people's.

python scripts/attention_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --heads 8 --head-size 64 --out FILE
"""

import json
import sys
from collections.abc import Sequence

import torch

from lib.core import program
from lib.core.files import atomic_path
from lib.measure.attention_cost import attention_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    parser = program.parser(__doc__)
    parser.add_argument("--mechanisms", required=True, type=json.loads, metavar="JSON", help="parameters by name")
    parser.add_argument("--heads", type=int, default=8, metavar="H", help="attention heads (8)")
    parser.add_argument("--head-size", type=int, default=64, metavar="D", help="width of a head (64)")
    lengths = [512, 1024, 2048, 4096, 8192, 16384]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths, metavar="N", help=f"tokens ({lengths})")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu", help="the GPU if any")
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16", "float16"],
        default="bfloat16" if on_gpu else "float32",
        help="type of the inputs (bfloat16 on a GPU)",
    )
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="time to repeat a row in (0.5)")
    parser.add_argument("--out", required=True, metavar="FILE", help="table to write, as CSV")
    arguments = parser.parse_args(argv)
    table = attention_cost(
        arguments.mechanisms,
        lengths=arguments.lengths,
        heads=arguments.heads,
        head_size=arguments.head_size,
        device=arguments.device,
        dtype=arguments.dtype,
        seconds=arguments.seconds,
    )
    with atomic_path(arguments.out) as partial:
        table.to_csv(partial, index=False, float_format="%.4g")


if __name__ == "__main__":
    sys.exit(program.run(main))
