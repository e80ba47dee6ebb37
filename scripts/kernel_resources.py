"""Compile the Triton kernels for GPUs, on a machine with or without one, and list the resources that they need.

Out: a CSV file, one row per mechanism, kernel, variant of the kernel and architecture. If registers do not suffice,
values spill to slow memory; shared memory limits how many programs a processor of the GPU runs at once.

python scripts/kernel_resources.py --out FILE
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.kernel_resources import ARCHITECTURES, kernel_resources
from lib.measure.options import add_mechanisms, table_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = table_parser(__doc__)
    add_mechanisms(parser)
    parser.add_argument("--length", type=int, default=2048, metavar="N", help="tokens (2048)")
    parser.add_argument("--heads", type=int, default=8, metavar="H", help="attention heads (8)")
    parser.add_argument("--head-size", type=int, default=64, metavar="D", help="width of a head (64)")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"], help="of the inputs")
    parser.add_argument("--dropout", type=float, default=0.0, metavar="P", help="of the weights (0)")
    parser.add_argument("--alibi", action="store_true", help="scores have the bias of ALiBi")
    parser.add_argument(
        "--architectures", type=int, nargs="+", default=ARCHITECTURES, metavar="CC", help=f"{ARCHITECTURES}"
    )
    arguments = vars(parser.parse_args(argv))
    out = arguments.pop("out")
    write_table(out, kernel_resources(**arguments))


if __name__ == "__main__":
    sys.exit(program.run(main))
