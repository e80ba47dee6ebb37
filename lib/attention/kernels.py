"""Whether a mechanism computes with Triton kernels of its own, or with torch's operations."""

import os
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from lib.core.errors import RunError
from lib.core.kinds import MECHANISMS
from lib.core.packages import require
from lib.core.settings.execution import Kernels

SETTING = "execution.training.kernels"
INTERPRETED = "TRITON_INTERPRET"
"""Environment variable by which Triton runs kernels in Python, slowly, also where there is no GPU."""

TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Launch(NamedTuple):
    """How a kernel is launched: the tiles of a program, and what Triton makes of its loop."""

    rows: int
    """What a program holds from its beginning to its end: tokens or draws."""
    columns: int
    """What it meets at a time in its loop."""
    warps: int
    stages: int
    """Turns of the loop whose loads are under way at a time."""


def size_class(rows: Tensor) -> str:
    """Return by what launches are chosen: `half` or `single` precision, `wide` if heads have more than 64 dimensions."""
    return ("half" if rows.element_size() <= 2 else "single") + (" wide" if rows.shape[-1] > 64 else "")


def by_triton(kernels: Kernels, rows: Tensor) -> bool:
    """Return whether to compute on `rows` with Triton kernels.

    `auto` stays with torch's operations until kernels have been measured to be right and faster on a GPU.

    Raises:
        RunError: Triton kernels are asked for, and cannot run here or on such numbers.
    """
    if kernels != "triton":
        return False
    require("triton", f"{SETTING}: triton")
    if rows.device.type != "cuda" and os.environ.get(INTERPRETED) != "1":
        raise RunError(
            f"{SETTING} is 'triton', but the model is on {rows.device.type}. Expected a GPU; use 'auto' or 'torch'. "
            f"To try the kernels without one, slowly, set {INTERPRETED}=1 in the environment."
        )
    if rows.dtype not in TYPES:
        expected = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        raise RunError(f"{SETTING} is 'triton', but numbers are {rows.dtype}. Expected {expected}; use 'torch'.")
    return True


def has_kernels(kind: str) -> bool:
    """Return whether mechanisms of a kind have Triton kernels, and Triton is there to run them."""
    return MECHANISMS.has(kind, "kernels") and find_spec("triton") is not None
