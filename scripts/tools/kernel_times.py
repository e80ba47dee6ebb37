"""Measure the time of attention kernel by kernel; or, with --sweep, find the best launch settings of each kernel.

python scripts/tools/kernel_times.py --out FILE
python scripts/tools/kernel_times.py --sweep --out FILE

With --once, every case runs once without measurement, for a memory checker. Prints a short table; the file has all
rows. On a GPU, mechanisms use their Triton kernels if they have them.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.measure import options
from lib.measure.implementations import own_cases
from lib.measure.kernels import best, kernel_times, sweep


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid(),
        lengths=[2048, 16_384],
        tokens=16_384,
        heads=8,
        head_size=64,
        sweep=False,
        once=False,
        workers=1,
        seconds=120.0,
    )
    parser.add_argument("--padding", choices=["none", "ragged"], default="none", help="none")
    arguments = options.arguments_of(parser, argv)
    out = arguments.pop("out")
    once, sweeping, workers, seconds = (arguments.pop(name) for name in ("once", "sweep", "workers", "seconds"))
    # The last one of a mechanism and length computes with Triton kernels, if there are some.
    cases = list({(case.mechanism, case.length): case for case in own_cases(**arguments)}.values())
    if once:
        for case in cases:
            case.prepare()()
        return
    if sweeping:
        by_triton = [case for case in cases if case.kernels == "triton"]
        found = sweep(by_triton, workers=workers, seconds=seconds)
    else:
        found = kernel_times(cases)
    print((best(found) if sweeping else found).to_string(index=False, float_format="{:.1f}".format))
    options.write_table(out, found)


if __name__ == "__main__":
    sys.exit(program.run(main))
