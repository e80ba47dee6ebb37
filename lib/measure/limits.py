"""Limits on the time and the memory of a measured pass, and the expected time and memory of a pass.

Shapes: H heads, N tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

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
