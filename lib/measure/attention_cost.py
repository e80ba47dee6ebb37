"""What attention costs: every mechanism, beside other people's implementations, from short to long sequences."""

import logging
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from lib.measure.cost import KeptBytes, interleaved, matrix_rate, operation_counter, timed, with_peak_mb
from lib.measure.implementations import PROJECTED, Case, Padding, prepare

logger = logging.getLogger(__name__)

NAIVE = "sdpa-naive"
LONGEST_NAIVE = 4_096
"""Where the plain N x N matrices of a batch still fit into a laptop's memory, and patience ends."""

PEERS = {
    "sdpa": ["torch"],
    "lsh-h2-c64": ["reformer-pytorch"],
    f"lsh-h2-c64{PROJECTED}": ["transformers"],
    "favor-m64": ["performer-pytorch"],
    "favor-m256": ["performer-pytorch"],
}
"""Which rows of ours have which peers."""

REPETITIONS = 5


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

    Args:
        mechanisms: parameters by name; plain exact attention and rows with projections are added,
            without padding.
        lengths: N; the batch makes all rows have as many tokens as the longest sequence.
        heads: H.
        head_size: d.
        device: `cpu` or `cuda`.
        dtype: type of the inputs.
        seconds: time for the repetitions of a row; one at least, and `REPETITIONS` at most.

    Returns:
        Columns `implementation`, `mechanism`, `length`, `batch`, `padding`, `device`, `dtype`, `threads`, `median_ms`,
        `min_ms`, `max_ms`, `bytes_kept`, `gemm_share` (operations a second over those of large matrix products),
        `peak_mb`, `repetitions`, `torch` (version).

    Raises:
        ConfigError: a package to compare with is not installed.
        RunError: memory did not suffice.
    """
    place = torch.device(device)
    rate = matrix_rate(place, getattr(torch, dtype))
    rows = []
    expected: dict[tuple[str, str], float] = {}  # seconds; a row is not faster than it was with shorter sequences
    for length in sorted(lengths):
        for padding in ("none", "ragged"):
            shape = {"length": length, "batch": max(lengths) // length, "heads": heads, "head_size": head_size}
            cases = {
                (case.implementation, case.mechanism): case
                for case in _cases(mechanisms, padding=padding, device=device, dtype=dtype, **shape)
            }
            prepared = {key: prepare(case) for key, case in cases.items()}
            for key, attention in prepared.items():
                # What is slow anyway needs no pass that warms up.
                if padding == "none" and expected.get(key, 0) < seconds:
                    expected[key] = timed(attention, place)
            repetitions = {key: min(REPETITIONS, max(1, round(seconds / expected[key]))) for key in prepared}
            times = interleaved(prepared, repetitions, place)
            prepared.clear()
            for key, case in cases.items():
                median = statistics.median(times[key])
                (kept, operations), peak = with_peak_mb(count, case, device=place)
                rows.append(
                    {
                        "implementation": case.implementation,
                        "mechanism": case.mechanism,
                        "length": length,
                        "batch": case.batch,
                        "padding": padding,
                        "device": device,
                        "dtype": dtype,
                        "threads": torch.get_num_threads(),
                        "median_ms": 1000 * median,
                        "min_ms": 1000 * min(times[key]),
                        "max_ms": 1000 * max(times[key]),
                        "bytes_kept": kept,
                        "gemm_share": operations / median / rate,
                        "peak_mb": peak,
                        "repetitions": len(times[key]),
                        "torch": torch.__version__,
                    }
                )
                logger.info("%s %s, %d tokens, padding %s: %.0f ms", *key, length, padding, 1000 * median)
    return pd.DataFrame(rows)


def count(case: Case) -> tuple[int, int]:
    """Return the bytes that a forward pass keeps, and the operations of it and of the backward pass."""
    attention = prepare(case)
    with operation_counter() as counter:
        with KeptBytes(attention.parameters) as kept:
            output = attention.forward()
        attention.backward(output)
    return kept.total, counter.get_total_flops()


def _cases(
    mechanisms: Mapping[str, dict[str, Any]], *, length: int, padding: Padding, **template: Any
) -> Iterator[Case]:
    ours = dict(mechanisms)
    if padding == "none":  # the slowest rows, for which padding changes little
        if length <= LONGEST_NAIVE:
            ours[NAIVE] = {"kind": "sdpa", "use_native_sdpa": False}
        for name in PEERS:
            if name.endswith(PROJECTED) and name.removesuffix(PROJECTED) in mechanisms:
                ours[name] = mechanisms[name.removesuffix(PROJECTED)]
    for name, parameters in ours.items():
        # Our exact attention is torch's kernel, so that a few rows show that they are the same.
        same = padding == "ragged" or length > LONGEST_NAIVE
        peers = [peer for peer in PEERS.get(name, ()) if not (same and peer == "torch")]
        for implementation in ("ours", *peers):
            yield Case(implementation, name, parameters, length, padding=padding, **template)
