"""Memory of attention over one sequence, from short to very long, compared with that of its N x N matrices."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch

from lib.measure.cost import KeptBytes, machine, timed, with_peak_mb
from lib.measure.implementations import NAIVE, AttentionCase, own_cases
from lib.measure.tables import COLUMNS

logger = logging.getLogger(__name__)

LENGTHS = (512, 2048, 8192, 32_768, 128_000)
"""Tokens of a sequence, N."""

WARM_UP = 128
"""Tokens of the sequence that warms libraries up, few compared with any that is measured."""

PEAK_MATRICES = 3
"""N x N matrices of a head that exist at once in plain operations: the weights, which are kept, and in the backward
pass the gradients of weights and scores. In the forward pass it is two, scores and weights."""

Last = tuple[AttentionCase, float, float]
"""Last measured seconds and MiB of a mechanism."""


@dataclass(frozen=True)
class Limits:
    """The most that a pass may be expected to take.

    Args:
        minutes: time.
        gibibytes: memory.
    """

    minutes: float
    gibibytes: float

    def exceeded(self, seconds: float, mb: float) -> str:
        """Return, in words, which limit `seconds` and `mb` MiB exceed; nothing if none."""
        if mb > 1024 * self.gibibytes:
            return f"more than {self.gibibytes:g} GiB"
        time = f"{self.minutes:g} min" if self.minutes >= 1 else f"{60 * self.minutes:g} s"
        return f"more than {time}" if seconds > 60 * self.minutes else ""


def growth(mechanism: Mapping[str, Any]) -> int:
    """Return the power of N that a mechanism's time grows with, from its parameters: 2 if exact, else (nearly) 1."""
    return 2 if mechanism["kind"] == "sdpa" else 1


def matrix_mb(length: int, heads: int, dtype: str) -> float:
    """Return the MiB of an N x N matrix of each head.

    Args:
        length: N.
        heads: H.
        dtype: of an entry, such as `float32`.
    """
    return heads * length**2 * getattr(torch, dtype).itemsize / 2**20


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
        Table `memory_cost` of `lib.measure.tables`; `matrix_mb` are the MiB of one N x N matrix of all heads, and
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
    attention = case.prepare()
    kept = KeptBytes(attention.parameters)

    def run() -> None:
        with kept:
            output = attention.forward()
        attention.backward(output)

    return timed(run, torch.device(case.device)), kept.total


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
