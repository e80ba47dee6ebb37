"""Measure the time of attention kernel by kernel; or, with --sweep, find the best launch settings of each kernel.

python benchmarks/kernel_times.py --out FILE
python benchmarks/kernel_times.py --sweep --out FILE

With --once, every case runs once without measurement, for a memory checker. Prints a short table; the file has all
rows. On a GPU, mechanisms use their Triton kernels if they have them;
times on a CPU are those of torch's operations.
"""

import itertools
import logging
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import options
from benchmarks.implementations import AttentionCase, own_cases
from benchmarks.tables import COLUMNS
from benchmarks.timing import host_seconds, interleaved, timed, warm_up
from lib.attention.kernels import Launch
from lib.attention.settings import MECHANISMS

logger = logging.getLogger(__name__)

PASS, FILLED, HOST = "a pass alone", "a pass, the queue filled before", "a pass, on the host"
"""Rows that are not kernels: microseconds of a pass between two events, and of the host until all is launched."""

REPETITIONS = 10
CANDIDATES = tuple(
    Launch(rows, columns, warps, stages)
    for (rows, columns), warps, stages in itertools.product(
        ((64, 32), (64, 64), (64, 128), (128, 32), (128, 64)), (4, 8), (2, 3, 5)
    )
)
"""Launches that a sweep tries."""


def kernel_times(cases: Sequence[AttentionCase]) -> pd.DataFrame:
    """Return the microseconds that the kernels of a forward and backward pass take, a row for each case and kernel.

    Args:
        cases: what to run.

    Returns:
        Table `kernel_times` of `benchmarks.tables`: `calls` and `us` are of one pass; `PASS`, `FILLED` and `HOST`
        stand for the whole.
    """
    rows = []
    for case in cases:
        device = torch.device(case.device)
        attention = case.prepare()
        warm_up(attention, device)
        found = [(name, calls, us) for name, (calls, us) in by_kernel(attention, device).items()]
        found.append((PASS, 1, 1e6 * statistics.median(timed(attention, device) for _ in range(REPETITIONS))))
        filled = interleaved({0: attention}, REPETITIONS, device, "filled")[0]
        found.append((FILLED, 1, 1e6 * statistics.median(filled)))
        found.append((HOST, 1, 1e6 * host_seconds(attention, device)))
        case_of = (case.mechanism, case.kernels, case.padding, case.length, case.batch)
        rows += [(*case_of, *each) for each in found]
    return pd.DataFrame(rows, columns=COLUMNS["kernel_times"])


def by_kernel(computation: Any, device: torch.device, repetitions: int = REPETITIONS) -> dict[str, tuple[float, float]]:
    """Return calls and microseconds of one run of `computation` by kernel, the longest first."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiled:
        for _ in range(repetitions):
            computation()
        if on_gpu:
            torch.cuda.synchronize(device)
    found = {
        event.key: (
            event.count / repetitions,
            (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / repetitions,
        )
        for event in profiled.key_averages()
    }
    return dict(sorted(((name, each) for name, each in found.items() if each[1]), key=lambda item: -item[1][1]))


def sweep(
    cases: Sequence[AttentionCase], *, workers: int, seconds: float, candidates: Sequence[Launch] = CANDIDATES
) -> pd.DataFrame:
    """Return the time of each kernel for every candidate launch that fits the GPU.

    Kernels are compiled before, by several processes at once: Triton stores compiled kernels on disk.

    Args:
        cases: by kernels, on a GPU.
        workers: processes that compile.
        seconds: time for all of it; candidates that it does not suffice for are left out with a warning.
        candidates: how to launch.

    Returns:
        Table `kernel_sweep` of `benchmarks.tables`.
    """
    begun = time.monotonic()
    by_mechanism = {case.mechanism: replace(case, batch=1) for case in cases}
    work = list(itertools.product(by_mechanism.values(), candidates))
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            fit = list(pool.map(_fits, *zip(*work, strict=True)))
    else:
        fit = [_fits(case, launch) for case, launch in work]
    logger.info("%d of %d fit, after %.0f s", sum(fit), len(fit), time.monotonic() - begun)
    fitting = {(case.mechanism, launch) for (case, launch), fits in zip(work, fit, strict=True) if fits}
    rows = []
    for launch in candidates:
        if time.monotonic() - begun > seconds:
            logger.warning("no time is left for %s and later candidates", launch)
            break
        for case in cases:
            if (case.mechanism, launch) not in fitting:
                continue
            with _launched(case, launch) as kernels:
                attention = case.prepare()
                attention()
                taken = by_kernel(attention, torch.device(case.device), 5)
            case_of = (case.mechanism, case.length, case.batch)
            rows += [(*case_of, name, *launch, us) for name, (_, us) in taken.items() if hasattr(kernels, name)]
    return pd.DataFrame(rows, columns=COLUMNS["kernel_sweep"])


def best(found: pd.DataFrame) -> pd.DataFrame:
    """Return the three fastest launches of every kernel and case; `found` as of `sweep`."""
    keys = ["mechanism", "length", "kernel"]
    return found.sort_values([*keys, "us"]).groupby(keys, sort=False).head(3)


@contextmanager
def _launched(case: AttentionCase, launch: Launch) -> Iterator[Any]:
    """Let all kernels of a case's mechanism be launched alike; yield the module that holds them."""
    kernels = MECHANISMS.load(MECHANISMS.parse(case.parameters).kind, "kernels")
    every: Mapping[str, Mapping[str, Launch]] = kernels.LAUNCHES
    alike = {size: dict.fromkeys(names, launch) for size, names in every.items()}
    with patch.dict(kernels.LAUNCHES, alike):
        yield kernels


def _fits(case: AttentionCase, launch: Launch) -> bool:
    try:
        with _launched(case, launch):
            case.prepare()()
        if case.device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # any that Triton has for what does not fit
        logger.info("%s %s: %s", case.mechanism, launch, error)
        return False
    return True


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
    sys.exit(options.run(__file__))
