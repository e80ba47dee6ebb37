"""Measure the time of attention kernel by kernel; or, with --sweep, find the best launch settings of each kernel.

python scripts/tools/kernel_times.py --out FILE
python scripts/tools/kernel_times.py --sweep --out FILE

With --once, every case runs once without measurement, for a checker of memory accesses. Prints a short table; the file
has all rows. On a GPU, mechanisms use their Triton kernels if they have them.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure.implementations import prepare
from lib.measure.kernel_times import best, cases_of, kernel_times, sweep
from lib.measure.options import cost_parser, write_table


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = cost_parser(__doc__)
    parser.add_argument("--names", nargs="+", metavar="NAME", help="which of the mechanisms (all)")
    parser.add_argument("--lengths", nargs="+", type=int, default=[2048, 16_384], metavar="N", help="2048 16384")
    parser.add_argument("--tokens", type=int, default=16_384, metavar="T", help="of a batch (16384)")
    parser.add_argument("--heads", type=int, default=8, metavar="H", help="attention heads (8)")
    parser.add_argument("--head-size", type=int, default=64, metavar="D", help="width of a head (64)")
    parser.add_argument("--padding", choices=["none", "ragged"], default="none", help="none")
    parser.add_argument("--sweep", action="store_true", help="try other launches")
    parser.add_argument("--once", action="store_true", help="one pass of each")
    parser.add_argument("--workers", type=int, default=1, metavar="W", help="processes that compile (1)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="of a sweep (120)")
    arguments = vars(parser.parse_args(argv))
    out, names = arguments.pop("out"), arguments.pop("names")
    once, sweeping, workers, seconds = (arguments.pop(name) for name in ("once", "sweep", "workers", "seconds"))
    mechanisms = arguments.pop("mechanisms")
    cases = cases_of({name: mechanisms[name] for name in names or mechanisms}, **arguments)
    if once:
        for case in cases:
            prepare(case)()
        return
    if sweeping:
        by_triton = [case for case in cases if case.kernels == "triton"]
        found = sweep(by_triton, workers=workers, seconds=seconds)
        print(best(found).to_string(index=False, float_format="{:.1f}".format))
    else:
        found = kernel_times(cases)
        print(found.to_string(index=False, float_format="{:.1f}".format))
    write_table(out, found)


if __name__ == "__main__":
    sys.exit(program.run(main))
