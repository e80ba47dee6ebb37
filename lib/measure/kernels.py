"""Triton kernels one by one: their time within a pass, how they are launched best, and the resources that they need.

Times on a CPU are those of torch's operations. Resources need no GPU: mechanisms and the scan of the state space pass
over tensors on the CPU, where every launch compiles the very variant that it would start, so the compiled kernels are
those of training.
"""

import itertools
import logging
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch
from torch.profiler import ProfilerActivity, profile

from lib.attention.contract import Attention, build
from lib.attention.kernels import Launch
from lib.attention.settings import MECHANISMS
from lib.core.errors import RunError
from lib.measure.cost import host_seconds, interleaved, timed, warm_up
from lib.measure.implementations import AttentionCase
from lib.measure.tables import COLUMNS

logger = logging.getLogger(__name__)

PASS, FILLED, HOST = "a pass alone", "a pass, the queue filled before", "a pass, on the host"
"""Rows that are not kernels: microseconds of a pass between two events, and of the host until all is launched."""

REPETITIONS = 10
CANDIDATES = tuple(
    Launch(rows, columns, warps, stages)
    for (rows, columns), warps, stages in itertools.product(
        ((64, 32), (64, 64), (64, 128), (128, 32), (128, 64)), (4, 8), (2, 3, 5)
    )
)
"""Launches that a sweep tries."""

ARCHITECTURES = (80, 90)
"""Compute capabilities: A100, H100 and H200."""


def kernel_times(cases: Sequence[AttentionCase]) -> pd.DataFrame:
    """Return the microseconds that the kernels of a forward and backward pass take, a row for each case and kernel.

    Args:
        cases: what to run.

    Returns:
        Table `kernel_times` of `lib.measure.tables`: `calls` and `us` are of one pass; `PASS`, `FILLED` and `HOST`
        stand for the whole.
    """
    rows = []
    for case in cases:
        device = torch.device(case.device)
        attention = case.prepare()
        warm_up(attention, device)
        found = [(name, calls, us) for name, (calls, us) in by_kernel(attention, device).items()]
        found.append((PASS, 1, 1e6 * statistics.median(timed(attention, device) for _ in range(REPETITIONS))))
        filled = interleaved({0: attention}, REPETITIONS, device, "filled")[0]
        found.append((FILLED, 1, 1e6 * statistics.median(filled)))
        found.append((HOST, 1, 1e6 * host_seconds(attention, device)))
        case_of = (case.mechanism, case.kernels, case.padding, case.length, case.batch)
        rows += [(*case_of, *each) for each in found]
    return pd.DataFrame(rows, columns=COLUMNS["kernel_times"])


def by_kernel(computation: Any, device: torch.device, repetitions: int = REPETITIONS) -> dict[str, tuple[float, float]]:
    """Return calls and microseconds of one run of `computation` by kernel, the longest first."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiled:
        for _ in range(repetitions):
            computation()
        if on_gpu:
            torch.cuda.synchronize(device)
    found = {
        event.key: (
            event.count / repetitions,
            (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / repetitions,
        )
        for event in profiled.key_averages()
    }
    return dict(sorted(((name, each) for name, each in found.items() if each[1]), key=lambda item: -item[1][1]))


def sweep(
    cases: Sequence[AttentionCase], *, workers: int, seconds: float, candidates: Sequence[Launch] = CANDIDATES
) -> pd.DataFrame:
    """Return the time of each kernel for every candidate launch that fits the GPU.

    Kernels are compiled before, by several processes at once: Triton stores compiled kernels on disk.

    Args:
        cases: by kernels, on a GPU.
        workers: processes that compile.
        seconds: time for all of it; candidates that it does not suffice for are left out with a warning.
        candidates: how to launch.

    Returns:
        Table `kernel_sweep` of `lib.measure.tables`.
    """
    begun = time.monotonic()
    by_mechanism = {case.mechanism: replace(case, batch=1) for case in cases}
    work = list(itertools.product(by_mechanism.values(), candidates))
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            fit = list(pool.map(_fits, *zip(*work, strict=True)))
    else:
        fit = [_fits(case, launch) for case, launch in work]
    logger.info("%d of %d fit, after %.0f s", sum(fit), len(fit), time.monotonic() - begun)
    fitting = {(case.mechanism, launch) for (case, launch), fits in zip(work, fit, strict=True) if fits}
    rows = []
    for launch in candidates:
        if time.monotonic() - begun > seconds:
            logger.warning("no time is left for %s and later candidates", launch)
            break
        for case in cases:
            if (case.mechanism, launch) not in fitting:
                continue
            with _launched(case, launch) as kernels:
                attention = case.prepare()
                attention()
                taken = by_kernel(attention, torch.device(case.device), 5)
            case_of = (case.mechanism, case.length, case.batch)
            rows += [(*case_of, name, *launch, us) for name, (_, us) in taken.items() if hasattr(kernels, name)]
    return pd.DataFrame(rows, columns=COLUMNS["kernel_sweep"])


def best(found: pd.DataFrame) -> pd.DataFrame:
    """Return the three fastest launches of every kernel and case; `found` as of `sweep`."""
    keys = ["mechanism", "length", "kernel"]
    return found.sort_values([*keys, "us"]).groupby(keys, sort=False).head(3)


@contextmanager
def _launched(case: AttentionCase, launch: Launch) -> Iterator[Any]:
    """Let all kernels of a case's mechanism be launched alike; yield the module that holds them."""
    kernels = MECHANISMS.load(MECHANISMS.parse(case.parameters).kind, "kernels")
    every: Mapping[str, Mapping[str, Launch]] = kernels.LAUNCHES
    alike = {size: dict.fromkeys(names, launch) for size, names in every.items()}
    with patch.dict(kernels.LAUNCHES, alike):
        yield kernels


def _fits(case: AttentionCase, launch: Launch) -> bool:
    try:
        with _launched(case, launch):
            case.prepare()()
        if case.device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # any that Triton has for what does not fit
        logger.info("%s %s: %s", case.mechanism, launch, error)
        return False
    return True


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
