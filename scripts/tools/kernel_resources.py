"""Compile the Triton kernels, on a machine with or without a GPU, and list the resources that they need.

Out: a CSV file, one row per mechanism, kernel, variant of the kernel and architecture; those of `ssm` are the kernels
of the state space. With too few registers, values
spill to slow memory; shared memory limits how many programs a processor of the GPU runs at once.

python scripts/tools/kernel_resources.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.kernels import ARCHITECTURES, kernel_resources


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        mechanisms=options.of_the_grid(),
        length=2048,
        heads=8,
        head_size=64,
        dropout=0.0,
        alibi=False,
        architectures=ARCHITECTURES,
    )
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"], help="of the inputs")
    options.measure(parser, kernel_resources, argv)


if __name__ == "__main__":
    sys.exit(program.run(main))
