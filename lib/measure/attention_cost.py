"""What attention costs: every mechanism, beside other people's implementations, from short to long sequences."""

import itertools
import logging
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from lib.measure.cost import KeptBytes, matrix_rate, operation_counter, processor, repeated, with_peak_mb
from lib.measure.implementations import NAIVE, PROJECTED, Case, Padding, prepare
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

    Args:
        mechanisms: parameters by name; plain exact attention and rows with projections are added.
        lengths: N in tokens; the batch makes all rows have as many tokens as the longest sequence.
        heads: H.
        head_size: d.
        device: `cpu` or `cuda`.
        dtype: type of the inputs.
        seconds: time for the repetitions of a row; one at least, and `lib.measure.cost.REPETITIONS` at most.

    Returns:
        Columns `ATTENTION_COLUMNS`. Of those, `median_ms`, `min_ms` and `max_ms` are over `repetitions`; `bytes_kept`
        is what the forward pass keeps; `gemm_share` is operations a second over those of large matrix products;
        `peak_mb` is the peak memory in MiB of one pass.

    Raises:
        ConfigError: a package to compare with is not installed.
        RunError: memory did not suffice.
    """
    place = torch.device(device)
    rate = matrix_rate(place, getattr(torch, dtype))
    rows = []
    expected: dict[tuple[str, str], float] = {}  # seconds; a row is not faster than it was with shorter sequences
    planned = attention_cases(mechanisms, lengths=lengths, heads=heads, head_size=head_size, device=device, dtype=dtype)
    for (length, padding), group in itertools.groupby(planned, key=lambda case: (case.length, case.padding)):
        cases = {(case.implementation, case.mechanism): case for case in group}
        prepared = {key: prepare(case) for key, case in cases.items()}
        times = repeated(prepared, expected, seconds, place)
        prepared.clear()
        for key, case in cases.items():
            expected[key] = median = statistics.median(times[key])
            (kept, operations), peak = with_peak_mb(count, case, device=place)
            rows.append(
                {
                    "implementation": case.implementation,
                    "mechanism": case.mechanism,
                    "length": length,
                    "batch": case.batch,
                    "padding": padding,
                    "heads": heads,
                    "head_size": head_size,
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
                    "processor": processor(place),
                    "torch": torch.__version__,
                }
            )
            logger.info("%s %s, %d tokens, padding %s: %.0f ms", *key, length, padding, 1000 * median)
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
    much.

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
                yield Case(
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


def count(case: Case) -> tuple[int, int]:
    """Return the bytes that a forward pass keeps, and the operations of it and of the backward pass."""
    attention = prepare(case)
    with operation_counter() as counter:
        with KeptBytes(attention.parameters) as kept:
            output = attention.forward()
        attention.backward(output)
    return kept.total, counter.get_total_flops()
