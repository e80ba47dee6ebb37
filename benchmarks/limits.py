"""The most that a pass over one sequence may take, and how its time and memory grow."""

from dataclasses import dataclass
from typing import Any

import torch

from lib.attention.settings import each_of, parse_mechanisms

WARM_UP = 128
"""Tokens of the sequence that warms libraries up, few compared with any that is measured."""

PEAK_MATRICES = 3
"""N x N matrices of a head that exist at once in plain operations: the weights, which are kept, and in the backward
pass the gradients of weights and scores. In the forward pass it is two, scores and weights."""


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


def growth(mechanism: Any) -> int:
    """Return the power of N that the time of a mechanism, or of a list, grows with: 2 if one is exact, else about 1."""
    return 2 if any(each.kind == "sdpa" for each in each_of(parse_mechanisms(mechanism))) else 1


def matrix_mb(length: int, heads: int, dtype: str) -> float:
    """Return the MiB of an N x N matrix of each head.

    Args:
        length: N.
        heads: H.
        dtype: of an entry, such as `float32`.
    """
    return heads * length**2 * getattr(torch, dtype).itemsize / 2**20
