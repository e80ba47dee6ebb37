"""Bitwise reproducible training on a GPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def repeatable(*, wanted: bool) -> Iterator[None]:
    """Restrict torch to bitwise deterministic operations, if `wanted`.

    Without it, the gradients of exact attention differ in their last digits from one run to the next on a GPU: fused
    kernels add up those of the queries in any order. All other operations are deterministic anyway, and on a CPU all
    are.
    """
    memory: Any = torch.utils.deterministic  # its attributes are created at run time
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by torch for matrix products on a GPU
        torch.use_deterministic_algorithms(True)
        memory.fill_uninitialized_memory = False  # a debugging aid that takes time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]
