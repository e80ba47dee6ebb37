"""Whether a mechanism computes with Triton kernels of its own, or with torch's operations."""

import os
from importlib.util import find_spec

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
