"""Measure the memory of attention over one sequence, compared with the size of its N x N matrices.

python benchmarks/memory_cost.py --mechanisms '{"sdpa": {"kind": "sdpa"}, ...}' --heads 8 --head-size 64 --out FILE
"""

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from benchmarks import options
from benchmarks.compared import NAIVE
from benchmarks.cost import machine, with_peak_mb
from benchmarks.implementations import AttentionCase, own_cases
from benchmarks.limits import PEAK_MATRICES, WARM_UP, Limits, growth, matrix_mb
from benchmarks.tables import COLUMNS
from benchmarks.timing import timed

logger = logging.getLogger(__name__)

MEMORY_LENGTHS = (512, 2048, 8192, 32_768, 128_000)
"""Tokens of a sequence, N, whose memory is measured."""

Last = tuple[AttentionCase, float, float]
"""Last measured seconds and MiB of a mechanism."""


def memory_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    lengths: Sequence[int],
    minutes: float,
    gibibytes: float,
    **setting: Any,
) -> pd.DataFrame:
    """Return time and memory of a forward and backward pass over one sequence, one row per mechanism and length.

    Args:
        mechanisms: parameters by name; exact attention in plain operations is added.
        lengths: N in tokens.
        minutes: a pass that is expected to take longer, by the last one that was measured, is left out: its row says so
            in `skipped`. Exact attention is tried with a single head before, since each head takes an equal share.
        gibibytes: likewise for memory.
        setting: `heads`, `head_size`, `device` and `dtype` of the cases, see `AttentionCase`.

    Returns:
        Table `memory_cost` of `benchmarks.tables`; `matrix_mb` are the MiB of one N x N matrix of all heads, and
        `computed_mb` those of all that exist at once; only exact attention in plain operations has them. `peak_mb` is
        the peak memory in MiB of one pass, `kept_mb` what its forward pass keeps, and `seconds` its time, unrepeated.

    Raises:
        RunError: memory did not suffice.
    """
    limits = Limits(minutes, gibibytes)
    rows = []
    last: dict[str, Last] = {}
    for length in sorted(lengths):
        for case in own_cases({**mechanisms, **NAIVE}, [length], length, **setting):
            if case.kernels != "torch":
                continue
            name = case.mechanism
            skipped = limits.exceeded(*_expected(case, last.get(name)))
            one_head = replace(case, heads=1)
            if skipped and growth(case.parameters) == 2 and not limits.exceeded(*_expected(one_head, last.get(name))):
                case, skipped = one_head, ""
            seconds = kept = peak = math.nan
            if not skipped:
                short = replace(case, length=min(length, WARM_UP))
                (seconds, kept), peak = with_peak_mb(one_pass, case, device=torch.device(case.device), warm_up=(short,))
                last[name] = case, seconds, peak
            matrix = matrix_mb(length, case.heads, case.dtype) if name in NAIVE else math.nan
            rows.append(
                {
                    **vars(case),
                    **machine(case.device, case.dtype),
                    "matrix_mb": matrix,
                    "computed_mb": PEAK_MATRICES * matrix,
                    "peak_mb": peak,
                    "kept_mb": kept / 2**20,
                    "seconds": seconds,
                    "skipped": skipped or None,
                }
            )
            logger.info("%s, %d tokens: %s", name, length, f"left out, {skipped}" if skipped else f"{peak:.0f} MiB")
    return pd.DataFrame(rows, columns=COLUMNS["memory_cost"])


def one_pass(case: AttentionCase) -> tuple[float, int]:
    """Return the seconds of one forward and backward pass, and the bytes that the forward pass keeps."""
    attention, kept = case.prepare(), 0

    def run() -> None:
        nonlocal kept
        kept = attention.kept_bytes()

    seconds = timed(run, torch.device(case.device))
    return seconds, kept


def _expected(case: AttentionCase, last: Last | None) -> tuple[float, float]:
    """Return the seconds and the MiB that `case` is expected to take, after the last one that was measured."""
    seconds = mb = 0.0
    if last:
        before, seconds, mb = last
        longer, heads = case.length / before.length, case.heads / before.heads
        seconds, mb = seconds * heads * longer ** growth(case.parameters), mb * heads * longer
    if case.mechanism in NAIVE:
        mb = PEAK_MATRICES * matrix_mb(case.length, case.heads, case.dtype)
    return seconds, mb


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid(),
        heads=8,
        head_size=64,
        lengths=MEMORY_LENGTHS,
        minutes=3.0,
        gibibytes=8.0,
    )
    options.measure(parser, memory_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
