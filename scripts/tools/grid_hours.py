"""Extrapolate the hours of the full grid from training steps measured on this machine.

python scripts/tools/grid_hours.py
python scripts/tools/grid_hours.py --device cuda --kernels triton --out results/tables/grid_hours.csv
python scripts/tools/grid_hours.py --device cuda --compile --models sdpa favor-m64

Prints hours per stage and the published ones; --out writes the hours of every run.
"""

import json
import sys
from collections.abc import Sequence
from typing import get_args

import torch

from lib.attention.settings import Kernels
from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.measure.grid_hours import grid_hours, summary
    from lib.measure.options import write_table

    parser = program.parser(__doc__)
    parser.add_argument("--study", default="config/config.yaml", metavar="FILE", help="the grid (config/config.yaml)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="the GPU if any (auto)")
    parser.add_argument(
        "--kernels", choices=get_args(Kernels), default="auto", help="implementation of attention (auto)"
    )
    parser.add_argument("--compile", action="store_true", help="with blocks that torch compiles")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="models of the grid (all)")
    seconds = 60.0 if torch.cuda.is_available() else 300.0
    parser.add_argument(
        "--seconds",
        type=float,
        default=seconds,
        metavar="S",
        help="approximate time of the measurement (300; on a GPU 60)",
    )
    parser.add_argument(
        "--encoder", type=json.loads, default={}, metavar="JSON", help="other sizes of the encoder, for a trial"
    )
    parser.add_argument("--out", type=program.file_to_write, metavar="FILE", help="CSV file to write")
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    hours = grid_hours(**arguments)
    print(summary(hours))
    if out:
        write_table(out, hours)


if __name__ == "__main__":
    sys.exit(program.run(main))
