"""What memory attention takes over one sequence, from short to very long, beside what its N x N matrices would take."""

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from lib.measure.cost import KeptBytes, processor, timed, with_peak_mb
from lib.measure.implementations import NAIVE, Case, prepare
from lib.measure.limits import PEAK_MATRICES, Limits, growth, matrix_mb
from lib.measure.tables import MEMORY_COLUMNS

logger = logging.getLogger(__name__)

LENGTHS = (512, 2048, 8192, 32_768, 128_000)
"""Tokens of a sequence, N."""

WARM_UP = 128
"""Tokens of a sequence that libraries are warmed up with, few beside any that is measured."""


def memory_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    lengths: Sequence[int],
    heads: int,
    head_size: int,
    device: str,
    dtype: str,
    minutes: float,
    gibibytes: float,
) -> pd.DataFrame:
    """Return what a forward and backward pass over one sequence takes, a row for each mechanism and length.

    Args:
        mechanisms: parameters by name; exact attention in plain operations is added.
        lengths: N in tokens.
        heads: H.
        head_size: d.
        device: `cpu` or `cuda`.
        dtype: type of the inputs.
        minutes: a pass that is expected to take longer, by the last one that was measured, is left out: its row says so
            in `skipped`. Exact attention is tried with a single head before, since each head takes an equal share.
        gibibytes: likewise for memory.

    Returns:
        Columns `MEMORY_COLUMNS`. Of those, `matrix_mb` are the MiB of one N x N matrix of all heads, and `computed_mb`
        those of all that exist at once; only exact attention in plain operations has them. `peak_mb` is the peak memory
        in MiB of one pass, `kept_mb` what its forward pass keeps, and `seconds` its time, unrepeated.

    Raises:
        RunError: memory did not suffice.
    """
    limits, place = Limits(minutes, gibibytes), torch.device(device)
    rows = []
    last: dict[str, tuple[Case, float, float]] = {}
    for length, (name, parameters) in itertools.product(sorted(lengths), {**mechanisms, **NAIVE}.items()):
        case = Case("ours", name, parameters, length, 1, "none", heads, head_size, device, dtype)
        skipped = limits.exceeded(*_expected(case, last.get(name)))
        if skipped and growth(parameters) == 2:
            one = replace(case, heads=1)
            if not limits.exceeded(*_expected(one, last.get(name))):
                case, skipped = one, ""
        seconds, kept, peak = float("nan"), float("nan"), float("nan")
        if not skipped:
            short = replace(case, length=min(length, WARM_UP))
            (seconds, kept), peak = with_peak_mb(one_pass, case, device=place, warm_up=(short,))
            last[name] = case, seconds, peak
        matrix = matrix_mb(length, case.heads, dtype) if name in NAIVE else float("nan")
        rows.append(
            {
                "mechanism": name,
                "length": length,
                "heads": case.heads,
                "head_size": head_size,
                "device": device,
                "dtype": dtype,
                "threads": torch.get_num_threads(),
                "matrix_mb": matrix,
                "computed_mb": PEAK_MATRICES * matrix,
                "peak_mb": peak,
                "kept_mb": kept / 2**20,
                "seconds": seconds,
                "skipped": skipped or None,
                "processor": processor(place),
                "torch": torch.__version__,
            }
        )
        logger.info("%s, %d tokens: %s", name, length, f"not measured, {skipped}" if skipped else f"{peak:.0f} MiB")
    return pd.DataFrame(rows, columns=MEMORY_COLUMNS)


def one_pass(case: Case) -> tuple[float, int]:
    """Return the seconds of one forward and backward pass, and the bytes that the forward pass keeps."""
    attention = prepare(case)
    kept = KeptBytes(attention.parameters)

    def run() -> None:
        with kept:
            output = attention.forward()
        attention.backward(output)

    return timed(run, torch.device(case.device)), kept.total


def _expected(case: Case, last: tuple[Case, float, float] | None) -> tuple[float, float]:
    """Return the seconds and the MiB that `case` is expected to take, after the last one that was measured."""
    seconds = mb = 0.0
    if last:
        before, seconds, mb = last
        longer, heads = case.length / before.length, case.heads / before.heads
        seconds, mb = seconds * heads * longer ** growth(case.parameters), mb * heads * longer
    if case.mechanism in NAIVE:
        mb = PEAK_MATRICES * matrix_mb(case.length, case.heads, case.dtype)
    return seconds, mb
