"""Measure the scan of a state-space layer, compared with flash-linear-attention where that package is installed.

python scripts/tools/scan_cost.py --lengths 2048 16384 --out FILE
"""

import sys
from collections.abc import Sequence

import torch

from lib.core import program
from lib.measure import options
from lib.measure.scan_cost import LENGTHS, scan_cost


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    on_gpu = torch.cuda.is_available()
    parser = options.parser(
        __doc__,
        on_device=True,
        lengths=LENGTHS,
        tokens=16_384,
        heads=16,
        head_size=64,
        state_size=64,
        seconds=0.25 if on_gpu else 1.0,
    )
    options.measure(parser, scan_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
