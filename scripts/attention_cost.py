"""Measure a forward and backward pass of every attention mechanism, compared with other implementations.

Without further options it measures all mechanisms of config/config.yaml, and those of lib/measure/compared.py. On a GPU
it needs only torch, transformers, pydantic and pandas, and also measures the Triton kernels of mechanisms that have
them.

python scripts/attention_cost.py --out FILE
"""

import sys
from collections.abc import Sequence

import torch

from lib.core import program
from lib.measure import options
from lib.measure.attention_cost import LENGTHS, attention_cost
from lib.measure.compared import EXTRA


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid() | EXTRA,
        heads=8,
        head_size=64,
        lengths=LENGTHS,
        keep_memory=False,
        seconds=0.25 if torch.cuda.is_available() else 1.0,
    )
    options.measure(parser, attention_cost, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
