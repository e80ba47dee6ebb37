"""What attention costs: every mechanism, beside other people's implementations, from short to long sequences."""

import itertools
import logging
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from lib.measure.comparison import Name, compare
from lib.measure.cost import Computation, repeated
from lib.measure.implementations import NAIVE, PROJECTED, AttentionCase, Padding, is_installed, own_cases
from lib.measure.tables import COLUMNS

logger = logging.getLogger(__name__)

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Tokens of a sequence, N."""

LONGEST_NAIVE = 4_096
"""Where the plain N x N matrices of a batch still fit into a laptop's memory, and patience ends."""

LONGEST_TORCH = 4_096
"""Our exact attention is torch's kernel: up to here rows of both show that they take the same time."""

PADDINGS: tuple[Padding, ...] = ("none", "ragged")

PEERS = {
    "sdpa": ["torch"],
    "lsh-h2-c64": ["reformer-pytorch"],
    f"lsh-h2-c64{PROJECTED}": ["transformers"],
    "favor-m64": ["performer-pytorch"],
    "favor-m256": ["performer-pytorch"],
}
"""Which rows of ours have which peers."""


def attention_cost(
    mechanisms: Mapping[str, dict[str, Any]], *, lengths: Sequence[int], seconds: float, **setting: Any
) -> pd.DataFrame:
    """Return what a forward and backward pass costs, a row for each implementation, mechanism, length and padding.

    An implementation whose package is not installed is left out with a warning; on a GPU so is what fails there.

    Args:
        mechanisms: parameters by name; plain exact attention and rows with projections are added.
        lengths: N in tokens; the batch makes all rows have as many tokens as the longest sequence.
        seconds: time for the repetitions of a row, see `lib.measure.cost.repeated`.
        setting: `heads`, `head_size`, `device` and `dtype` of the cases, see `AttentionCase`.

    Returns:
        Table `attention_cost` of `lib.measure.tables`; see `CountedPass` and `lib.measure.comparison.compare`.

    Raises:
        RunError: memory did not suffice.
    """
    place = torch.device(setting["device"])
    expected: dict[Name, float] = {}  # seconds; a row is not faster than it was with shorter sequences

    def times(passes: dict[Name, Computation]) -> dict[Name, list[float]]:
        found = repeated(passes, expected, seconds, place, "filled")
        expected.update({name: statistics.median(taken) for name, taken in found.items()})
        return found

    rows: list[dict[str, Any]] = []
    planned = attention_cases(mechanisms, lengths, **setting)
    for (length, padding), group in itertools.groupby(planned, key=lambda case: (case.length, case.padding)):
        logger.info("%d tokens, padding %s", length, padding)
        rows += compare([case for case in group if is_installed(case.implementation)], times)
    return pd.DataFrame(rows, columns=COLUMNS["attention_cost"])


def attention_cases(
    mechanisms: Mapping[str, dict[str, Any]], lengths: Sequence[int], **setting: Any
) -> Iterator[AttentionCase]:
    """Yield what `attention_cost` measures, by length, without padding and then with ragged rows.

    Every implementation has ragged rows. Plain exact attention has none: the mask changes what it computes, and not how
    much. Arguments are those of `attention_cost`.
    """
    projected = [name.removesuffix(PROJECTED) for name in PEERS if name.endswith(PROJECTED)]
    ours = {**mechanisms, **{name + PROJECTED: mechanisms[name] for name in projected if name in mechanisms}}
    for length, padding in itertools.product(sorted(lengths), PADDINGS):
        wanted = ours | (NAIVE if padding == "none" and length <= LONGEST_NAIVE else {})
        for name, parameters in wanted.items():
            own = list(own_cases({name: parameters}, [length], max(lengths), padding=padding, **setting))
            yield from own
            for peer in PEERS.get(name, ()):
                if peer != "torch" or length <= LONGEST_TORCH:
                    yield replace(own[0], implementation=peer)
