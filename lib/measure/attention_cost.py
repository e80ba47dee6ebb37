"""What attention costs: every mechanism, beside other people's implementations, from short to long sequences."""

import itertools
import logging
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
import torch

from lib.attention.kernels import has_kernels
from lib.measure.cost import (
    KeptBytes,
    clock_mhz,
    fused_attention,
    host_seconds,
    matrix_rate,
    operation_counter,
    processor,
    repeated,
    runs,
    with_peak_mb,
)
from lib.measure.implementations import NAIVE, PROJECTED, Case, Padding, is_installed, prepare
from lib.measure.tables import ATTENTION_COLUMNS

logger = logging.getLogger(__name__)

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Tokens of a sequence, N."""

LONGEST_NAIVE = 4_096
"""Where the plain N x N matrices of a batch still fit into a laptop's memory, and patience ends."""

LONGEST_TORCH = 4_096
"""Our exact attention is torch's kernel: up to here rows of both show that they take the same time."""

PEERS = {
    "sdpa": ["torch"],
    "lsh-h2-c64": ["reformer-pytorch"],
    f"lsh-h2-c64{PROJECTED}": ["transformers"],
    "favor-m64": ["performer-pytorch"],
    "favor-m256": ["performer-pytorch"],
}
"""Which rows of ours have which peers."""


def attention_cost(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    lengths: Sequence[int],
    heads: int,
    head_size: int,
    device: str,
    dtype: str,
    seconds: float,
) -> pd.DataFrame:
    """Return what a forward and backward pass costs, a row for each implementation, mechanism, length and padding.

    An implementation whose package is not installed is left out with a warning; on a GPU so is what fails there.

    Args:
        mechanisms: parameters by name; plain exact attention and rows with projections are added.
        lengths: N in tokens; the batch makes all rows have as many tokens as the longest sequence.
        heads: H.
        head_size: d.
        device: `cpu` or `cuda`.
        dtype: type of the inputs.
        seconds: time for the repetitions of a row, see `lib.measure.cost.repeated`.

    Returns:
        Columns `ATTENTION_COLUMNS`. Of those, `kernels` is what it computed with: `torch`, `triton`, or the name of
        torch's own kernel of attention; `median_ms`, `min_ms` and `max_ms` are over `repetitions`; `bytes_kept` is what
        the forward pass keeps; `gemm_share` is operations a second over those of large matrix products, the operations
        being those of torch's way to compute; `peak_mb` is the peak memory in MiB of one pass; `host_ms` is the time
        after which the host has launched all of a pass on a GPU, which `median_ms` leaves out; `clock_mhz` is the clock
        of the GPU just after the repetitions of the rows of this length and padding.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(device)
    rate = matrix_rate(place, getattr(torch, dtype))
    rows = []
    expected: dict[tuple[str, str, str], float] = {}  # seconds; a row is not faster than it was with shorter sequences
    planned = attention_cases(mechanisms, lengths=lengths, heads=heads, head_size=head_size, device=device, dtype=dtype)
    for (length, padding), group in itertools.groupby(planned, key=lambda case: (case.length, case.padding)):
        cases: dict[tuple[str, str, str], Case] = {
            (case.implementation, case.mechanism, case.kernels): case for case in group if is_installed(case)
        }
        prepared = {key: prepare(case) for key, case in cases.items()}
        prepared = {key: attention for key, attention in prepared.items() if runs(attention, cases[key], place)}
        times = repeated(prepared, expected, seconds, place, "filled")
        clock = clock_mhz(place)
        on_host = {key: host_seconds(attention, place) for key, attention in prepared.items()}
        prepared.clear()
        operations: dict[tuple[str, ...], int] = {}
        for key, seconds_taken in times.items():
            case, median = cases[key], statistics.median(seconds_taken)
            expected[key] = median
            counted, peak = with_peak_mb(count, case, device=place)
            if case.kernels == "torch":
                operations[key[:2]] = counted.operations
            done = operations.get(key[:2], math.nan)  # what Triton's kernels do is not seen; torch's row comes before
            rows.append(
                {
                    "implementation": case.implementation,
                    "mechanism": case.mechanism,
                    "kernels": counted.fused or case.kernels,
                    "length": length,
                    "batch": case.batch,
                    "padding": padding,
                    "heads": heads,
                    "head_size": head_size,
                    "device": device,
                    "dtype": dtype,
                    "threads": torch.get_num_threads(),
                    "median_ms": 1000 * median,
                    "min_ms": 1000 * min(seconds_taken),
                    "max_ms": 1000 * max(seconds_taken),
                    "bytes_kept": counted.kept,
                    "gemm_share": done / median / rate,
                    "peak_mb": peak,
                    "host_ms": 1000 * on_host[key],
                    "clock_mhz": clock,
                    "repetitions": len(seconds_taken),
                    "processor": processor(place),
                    "torch": torch.__version__,
                }
            )
            logger.info("%s %s %s, %d tokens, padding %s: %.3g ms", *key, length, padding, 1000 * median)
    return pd.DataFrame(rows, columns=ATTENTION_COLUMNS)


def attention_cases(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    lengths: Sequence[int],
    heads: int,
    head_size: int,
    device: str,
    dtype: str,
) -> Iterator[Case]:
    """Yield what `attention_cost` measures, by length, without padding and then with ragged rows.

    Every implementation has ragged rows. Plain exact attention has none: the mask changes what it computes, and not how
    much. On a GPU, mechanisms of ours that have Triton kernels have a row with torch's operations, then one with them.

    Args:
        mechanisms: parameters by name.
        lengths: N in tokens.
        heads: H.
        head_size: d.
        device: `cpu` or `cuda`.
        dtype: type of the inputs.
    """
    ours = dict(mechanisms)
    for name in PEERS:
        if name.endswith(PROJECTED) and name.removesuffix(PROJECTED) in mechanisms:
            ours[name] = mechanisms[name.removesuffix(PROJECTED)]
    paddings: tuple[Padding, ...] = ("none", "ragged")
    for length, padding in itertools.product(sorted(lengths), paddings):
        wanted = ours | (NAIVE if padding == "none" and length <= LONGEST_NAIVE else {})
        for name, parameters in wanted.items():
            peers = [peer for peer in PEERS.get(name, ()) if peer != "torch" or length <= LONGEST_TORCH]
            for implementation in ("ours", *peers):
                case = Case(
                    implementation=implementation,
                    mechanism=name,
                    parameters=parameters,
                    length=length,
                    batch=max(lengths) // length,
                    padding=padding,
                    heads=heads,
                    head_size=head_size,
                    device=device,
                    dtype=dtype,
                )
                yield case
                if implementation == "ours" and device == "cuda" and has_kernels(parameters["kind"]):
                    yield replace(case, kernels="triton")


class Counted(NamedTuple):
    """What is counted of a pass."""

    kept: int
    """Bytes that the forward pass keeps."""
    operations: int
    """Of the forward and the backward pass."""
    fused: str | None
    """Torch's own kernel of attention, if one ran on a GPU."""


def count(case: Case) -> Counted:
    """Return what a forward and a backward pass keep and do."""
    attention = prepare(case)
    with operation_counter() as counter:
        with KeptBytes(attention.parameters) as kept:
            output = attention.forward()
        attention.backward(output)
    fused = fused_attention(counter) if case.device == "cuda" else None
    return Counted(kept.total, counter.get_total_flops(), fused)
