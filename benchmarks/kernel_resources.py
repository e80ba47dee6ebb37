"""Compile the Triton kernels, on a machine with or without a GPU, and list the resources that they need.

Out: a CSV file, one row per mechanism, kernel, variant of the kernel and architecture; those of `ssm` are the kernels
of the state space. With too few registers, values spill to slow memory; shared memory limits how many programs a
processor of the GPU runs at once. Mechanisms and the scan pass over tensors on the CPU, where every launch compiles the
very variant that it would start, so the compiled kernels are those of training.

python benchmarks/kernel_resources.py --out FILE
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch

from benchmarks import options
from benchmarks.tables import COLUMNS
from lib.attention.contract import Attention, build
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError

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

    The rows of the mechanism `ssm` are those of the scan of a state-space layer, whose states have `head_size` numbers
    per channel.

    Args:
        mechanisms: parameters by name; those without Triton kernels have no rows.
        length: N in tokens.
        heads: H.
        head_size: d.
        dtype: type of the inputs.
        dropout: probability of dropping a weight, for mechanisms that can. Those whose kernels cannot have no rows.
        alibi: whether scores have the bias of ALiBi, for mechanisms that can.
        architectures: compute capabilities, 10 times major plus minor.

    Returns:
        Table `kernel_resources` of `benchmarks.tables`: registers of a thread, bytes of a thread that do not fit into
        them, and KiB of shared memory of a program.

    Raises:
        RunError: Triton interprets in this process, and cannot compile.
    """
    rows = []
    for architecture in architectures:
        with _compiling_for(architecture) as compiled:
            for name, parameters in mechanisms.items():
                compiled.clear()
                _pass_once(parameters, length, heads, head_size, getattr(torch, dtype), dropout, alibi)
                rows += [(name, kernel.name, architecture, *_taken(kernel)) for kernel in compiled.values()]
            compiled.clear()
            _scan_once(length, heads, head_size, getattr(torch, dtype))
            rows += [("ssm", kernel.name, architecture, *_taken(kernel)) for kernel in compiled.values()]
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
    target = GPUTarget("cuda", architecture, 32)
    driver.set_active(  # the answers that a compilation needs of a driver
        SimpleNamespace(
            get_current_target=lambda: target,
            get_current_device=lambda: architecture,
            get_current_stream=lambda device: 0,
        )
    )
    try:
        with patch.object(triton.JITFunction, "__getitem__", compile_only):
            yield compiled
    finally:
        driver._active = before


def _pass_once(
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


def _scan_once(length: int, heads: int, head_size: int, dtype: torch.dtype) -> None:
    """Go forward and backward through the scan of a state-space layer, where launches only compile."""
    from lib.backbones.ssm.kernels import ScanByTriton

    inputs = torch.zeros(2, length, heads, head_size, dtype=dtype, requires_grad=True)
    decay = torch.zeros(2, length, heads)
    write, read = torch.zeros(2, 2, length, head_size)
    for reverse in (False, True):
        outputs = ScanByTriton.apply(inputs, decay, write, read, reverse)
        outputs.backward(torch.zeros_like(outputs))


def _taken(kernel: Any) -> tuple[int, int, int, float]:
    """Return warps, registers, spilled bytes and KiB of shared memory of a compiled kernel."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    used = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", printed)}
    shared = (used["SHARED"] + kernel.metadata.shared) / 2**10
    return kernel.metadata.num_warps, used["REG"], used["STACK"] + used["LOCAL"], shared


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = options.parser(
        __doc__,
        mechanisms=options.of_the_grid(),
        length=2048,
        heads=8,
        head_size=64,
        dropout=0.0,
        alibi=False,
        architectures=ARCHITECTURES,
    )
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"], help="of the inputs")
    options.measure(parser, kernel_resources, argv)


if __name__ == "__main__":
    sys.exit(options.run(__file__))
