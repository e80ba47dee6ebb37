"""GPU resources of the Triton kernels: compiled for a GPU, on a machine with or without one.

Nothing runs on a GPU. Mechanisms pass over tensors on the CPU, where every launch compiles the very variant that it
would start; so the compiled kernels are those of training.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch

from lib.attention.contract import Attention, build
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError
from lib.measure.tables import COLUMNS

ARCHITECTURES = (80, 90)
"""Compute capabilities: A100, H100 and H200."""


def kernel_resources(
    mechanisms: Mapping[str, dict[str, Any]],
    *,
    length: int,
    heads: int,
    head_size: int,
    dtype: str,
    dropout: float = 0.0,
    alibi: bool = False,
    architectures: Sequence[int] = ARCHITECTURES,
) -> pd.DataFrame:
    """Return the resources of each kernel, one row per mechanism, kernel, variant and architecture.

    Args:
        mechanisms: parameters by name; those without Triton kernels have no rows.
        length: N in tokens.
        heads: H.
        head_size: d.
        dtype: type of the inputs.
        dropout: probability of dropping a weight, for mechanisms that can.
        alibi: whether scores have the bias of ALiBi, for mechanisms that can.
        architectures: compute capabilities, 10 times major plus minor.

    Returns:
        Table `kernel_resources` of `lib.measure.tables`: registers of a thread, bytes of a thread that do not fit into
        them, and KiB of shared memory of a program.

    Raises:
        RunError: Triton interprets in this process, and cannot compile.
    """
    rows = []
    for architecture in architectures:
        with _compiling_for(architecture) as compiled:
            for name, parameters in mechanisms.items():
                compiled.clear()
                _pass(parameters, length, heads, head_size, getattr(torch, dtype), dropout, alibi)
                rows += [(name, kernel.name, architecture, *_taken(kernel)) for kernel in compiled.values()]
    return pd.DataFrame(rows, columns=COLUMNS["kernel_resources"])


@contextmanager
def _compiling_for(architecture: int) -> Iterator[dict[str, Any]]:
    """Replace every launch of a kernel by its compilation; yield the compiled kernels, by digest."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    if triton.knobs.runtime.interpret:
        raise RunError("TRITON_INTERPRET is set, so that Triton does not compile. Unset it, and start again.")
    compiled: dict[str, Any] = {}

    def compile_only(self, grid):
        def launch(*arguments, **options):
            kernel = self.run(*arguments, grid=grid, warmup=True, **options)
            compiled[kernel.hash] = kernel

        return launch

    before = driver._active
    driver.set_active(_NoDevice(GPUTarget("cuda", architecture, 32)))
    try:
        with patch.object(triton.JITFunction, "__getitem__", compile_only):
            yield compiled
    finally:
        driver._active = before


class _NoDevice:
    """What Triton asks a driver when it compiles.

    Args:
        target: to compile for.
    """

    def __init__(self, target: Any) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        """Return what to compile for."""
        return self.target

    def get_current_device(self) -> int:
        """Return a number that Triton uses as a key of its compiled kernels."""
        return self.target.arch

    def get_current_stream(self, device: int) -> int:
        """Return a number that nothing is made of."""
        return 0


def _pass(
    values: dict[str, Any], length: int, heads: int, head_size: int, dtype: torch.dtype, dropout: float, alibi: bool
) -> None:
    """Go forward and backward over a row that is full and one that is not, in training, where launches only compile."""
    parameters = MECHANISMS.parse(values)
    mechanism = build(
        parameters,
        num_heads=heads,
        head_size=head_size,
        layer=0,
        seed=0,
        dropout=dropout if parameters.takes_attention_dropout else 0.0,
        slopes=[0.5] * heads if alibi and parameters.takes_bias else None,
    )
    query, key, value = torch.zeros(3, 2, heads, length, head_size, dtype=dtype, requires_grad=True)
    key = query if parameters.shares_query_and_key else key
    mask = torch.ones(2, length)
    mask[1, length // 2 :] = 0
    with patch.object(Attention, "by_triton", lambda self, rows: True):
        mechanism(query, key, value, mask).sum().backward()


def _taken(kernel: Any) -> tuple[int, int, int, float]:
    """Return warps, registers, spilled bytes and KiB of shared memory of a compiled kernel."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", told)}
    shared = (used["SHARED"] + kernel.metadata.shared) / 2**10
    return kernel.metadata.num_warps, used["REG"], used["STACK"] + used["LOCAL"], shared
