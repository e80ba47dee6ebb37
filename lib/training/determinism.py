"""Trainings on a GPU that repeat bit for bit."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def repeatable(*, wanted: bool) -> Iterator[None]:
    """Let torch use only operations that repeat bit for bit, if that is `wanted`.

    Without it, the gradients of exact attention differ in their last digits from one run to the next on a GPU: fused
    kernels add up those of the queries in any order. Everything else repeats anyway, as does all of it on a CPU.
    """
    memory: Any = torch.utils.deterministic  # its attributes are made at run time
    before = torch.are_deterministic_algorithms_enabled(), memory.fill_uninitialized_memory
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch refuses matrix products on a GPU without
        torch.use_deterministic_algorithms(True)
        memory.fill_uninitialized_memory = False  # finds faults of programs, and takes time
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        memory.fill_uninitialized_memory = before[1]
