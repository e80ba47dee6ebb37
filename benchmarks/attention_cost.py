"""Measure a forward and backward pass of every attention mechanism, compared with other implementations.

Without further options it measures all mechanisms of config/config.yaml, those of benchmarks/compared.py and those of
studies/since_2023. On a GPU
it needs only torch, transformers, pydantic and pandas, and also measures the Triton kernels of mechanisms that have
them.

python benchmarks/attention_cost.py --out FILE
"""

import itertools
import logging
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from benchmarks import options
from benchmarks.compared import (
    EXTRA,
    FLEX,
    LONGEST_NAIVE,
    LONGEST_PADDED,
    LONGEST_TORCH,
    NAIVE,
    PEERS,
    PROJECTED,
    REACH,
)
from benchmarks.comparison import Name, compare
from benchmarks.cost import keep_freed_memory, repeated
from benchmarks.implementations import AttentionCase, Padding, is_installed, own_cases
from benchmarks.tables import COLUMNS, LEAST
from benchmarks.timing import Computation
from lib.core.extensions import use

logger = logging.getLogger(__name__)

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Tokens of a sequence, N."""

SINCE_2023 = {kind: {"kind": kind} for kind in ("gated_linear", "delta", "duality", "differential")}
"""Mechanisms of studies/since_2023, which are measured where all others are."""

PADDINGS: tuple[Padding, ...] = ("none", "ragged")


def attention_cost(
    mechanisms: Mapping[str, Any], *, lengths: Sequence[int], seconds: float, keep_memory: bool = False, **setting: Any
) -> pd.DataFrame:
    """Return the cost of a forward and backward pass, one row per implementation, mechanism, length and padding.

    An implementation whose package is not installed is left out with a warning; on a GPU so is what fails there.

    Args:
        mechanisms: parameters by name, or lists of such, one per layer; plain exact attention, rows with
            projections and, if all of `EXTRA` are there, `SINCE_2023` are added.
        lengths: N in tokens; the batch makes all rows have as many tokens as the longest sequence.
        seconds: time for the repetitions of a row, `LEAST` at least, see `benchmarks.cost.repeated`.
        keep_memory: whether the allocator keeps freed memory from now on, see `keep_freed_memory`.
        setting: `heads`, `head_size`, `device` and `dtype` of the cases, see `AttentionCase`.

    Returns:
        Table `attention_cost` of `benchmarks.tables`; see `CountedPass` and `benchmarks.comparison.compare`.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(setting["device"])
    if keep_memory:
        keep_freed_memory()
    if EXTRA.keys() <= mechanisms.keys():
        use(["studies/since_2023"])
        mechanisms = {**mechanisms, **SINCE_2023}
    expected: dict[Name, float] = {}  # seconds; a row is not faster than it was with shorter sequences

    def times(passes: dict[Name, Computation]) -> dict[Name, list[float]]:
        found = repeated(passes, expected, seconds, place, "filled", least=LEAST)
        expected.update({name: statistics.median(taken) for name, taken in found.items()})
        return found

    rows: list[dict[str, Any]] = []
    planned = attention_cases(mechanisms, lengths, **setting)
    for (length, padding), group in itertools.groupby(planned, key=lambda case: (case.length, case.padding)):
        logger.info("%d tokens, padding %s", length, padding)
        rows += compare([case for case in group if is_installed(case.implementation)], times)
    return pd.DataFrame(rows).assign(memory_kept=keep_memory)[COLUMNS["attention_cost"]]


def attention_cases(mechanisms: Mapping[str, Any], lengths: Sequence[int], **setting: Any) -> Iterator[AttentionCase]:
    """Yield what `attention_cost` measures, by length, without padding and then with ragged rows.

    Every implementation has ragged rows. Plain exact attention has none: the mask changes its results, and not how
    much. On a CPU, other people's approximations, which are linear in N and take seconds, have a few lengths only:
    every second, with padding the shortest. Arguments are those of `attention_cost`.
    """
    projected = {name + PROJECTED: mechanisms[name] for name in mechanisms if name + PROJECTED in PEERS}
    lengths, on_gpu = sorted(lengths), setting["device"] == "cuda"
    few = {"none": {*lengths[::2]}, "ragged": {lengths[0]}}
    for length, padding in itertools.product(lengths, PADDINGS):
        if padding == "ragged" and length > LONGEST_PADDED and not on_gpu:
            continue
        with_peers = on_gpu or length in few[padding]
        wanted = {**mechanisms, **(projected if with_peers else {})}
        wanted |= NAIVE if padding == "none" and length <= LONGEST_NAIVE else {}
        for name, parameters in wanted.items():
            own = list(own_cases({name: parameters}, [length], max(lengths), padding=padding, **setting))
            yield from own
            for peer in PEERS.get(name, ()) if own else ():
                if _is_measured(peer, own[0], with_peers):
                    yield replace(own[0], implementation=peer)


def _is_measured(peer: str, own: AttentionCase, with_peers: bool) -> bool:
    """Return whether `peer` is measured together with our row; `with_peers`: whether most peers are, at its length."""
    if peer == "torch":
        return own.length <= LONGEST_TORCH
    if peer == FLEX:
        return own.device == "cuda"
    shortest, longest = REACH.get(own.parameters["kind"], (own.length, own.length))
    return with_peers and shortest <= own.length <= longest


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        on_device=True,
        mechanisms=options.of_the_grid() | EXTRA,
        heads=8,
        head_size=64,
        lengths=LENGTHS,
        keep_memory=False,
        seconds=0.25 if torch.cuda.is_available() else 1.0,
    )
    options.measure(parser, attention_cost, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
