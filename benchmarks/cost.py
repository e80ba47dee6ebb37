"""Repetitions, arithmetic and peak memory of a computation, and the columns of the machine."""

import ctypes
import functools
import logging
import math
import multiprocessing
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from benchmarks.timing import Computation, Key, Queue, interleaved, timed, warm_up
from lib.advice.cost import processor, resident_mb
from lib.core.errors import RunError
from lib.core.program import resident_peak_mb

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

REPETITIONS = 5
"""Most repetitions of a computation on a CPU."""

GPU_REPETITIONS = 30
"""Repetitions on a GPU, where a pass may take less than a millisecond."""

MATRIX = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the matrices whose product gives the machine's own rate: enough to keep all of it busy."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`. Source: malloc.h."""

PRELOADED = (
    "benchmarks.attention_cost",
    "benchmarks.training_cost",
    "transformers.models.reformer.modeling_reformer",
    "reformer_pytorch",
    "performer_pytorch",
)
"""Imported once, by the process that those which measure memory are forked from; what is not there is passed over."""


def runs(computation: Computation, name: object, device: torch.device) -> bool:
    """Return whether a computation runs on a GPU, where it is warmed up; a warning says what fails there, and why.

    On a CPU nothing is tried beforehand: what fails there is an error.
    """
    if device.type != "cuda":
        return True
    try:
        warm_up(computation, device)
    except Exception as error:  # any: other people's code, or a kernel that does not suit this GPU
        logger.warning("%s is left out (%s: %s)", name, type(error).__name__, error)
        return False
    return True


def repeated(
    computations: Mapping[Key, Computation],
    expected: Mapping[Key, float],
    seconds: float,
    device: torch.device,
    queue: Queue = "shared",
    least: int = 1,
) -> dict[Key, list[float]]:
    """Return the seconds of all repetitions of every computation within its time.

    Args:
        computations: what to measure, taking turns.
        expected: seconds that a computation is known to take at least, if anything is known.
        seconds: time for the repetitions of one; `REPETITIONS` or `GPU_REPETITIONS` at most.
        device: where they run.
        queue: that of a GPU.
        least: repetitions at least, however long they take.
    """
    on_gpu = device.type == "cuda"
    most = GPU_REPETITIONS if on_gpu else REPETITIONS
    known = dict(expected)
    for key, computation in computations.items():
        # Slow computations need only one warm-up; but new shapes may mean new kernels.
        if on_gpu or key not in known or known[key] < seconds / most:
            known[key] = warm_up(computation, device)
    repetitions = {key: min(most, max(least, round(seconds / known[key]))) for key in computations}
    return interleaved(computations, repetitions, device, queue)


@functools.cache
def matrix_rate(device: torch.device, dtype: torch.dtype, repetitions: int = 9) -> float:
    """Return the floating-point operations a second of the best of some large matrix products."""
    size = MATRIX[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    warm_up(lambda: left @ right, device)
    return 2 * size**3 / min(timed(lambda: left @ right, device) for _ in range(repetitions))


def machine(device: str, dtype: str) -> dict[str, Any]:
    """Return the columns of a table with the hardware and the number type."""
    return {
        "device": device,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        "processor": processor(torch.device(device)),
        "torch": torch.__version__,
    }


def keep_freed_memory() -> None:
    """Have glibc keep the memory that this process frees, for its next allocation.

    By default it returns large blocks to the system, and the next pass maps them again, page by page.
    """
    glibc = ctypes.CDLL(None)
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        glibc.mallopt(option, 2**31 - 1)


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Return the columns of a table that sum up the seconds of repetitions."""
    return {
        "median_ms": 1000 * statistics.median(seconds),
        "min_ms": 1000 * min(seconds),
        "max_ms": 1000 * max(seconds),
        "repetitions": len(seconds),
    }


def clock_mhz(device: torch.device) -> float:
    """Return the clock of a GPU's multiprocessors in MHz, as of the last moments; nan on a CPU, or if it is unknown."""
    if device.type != "cuda":
        return math.nan
    try:
        return float(torch.cuda.clock_rate(device))
    except Exception as error:  # there is no package nvidia-ml-py, or the driver does not tell, each in its own way
        logger.warning("the clock of the GPU is not known (%s)", error)
        return math.nan


def operation_counter() -> FlopCounterMode:
    """Return a context that counts the floating-point operations of matrix products: two a product and sum."""
    aten = torch.ops.aten
    return FlopCounterMode(
        display=False,
        custom_mapping={
            torch.ops.mkldnn._linear_pointwise: lambda states, weight, *_, **__: 2 * math.prod(states) * weight[0],
            aten.baddbmm_: lambda total, left, right, **_: 2 * math.prod(left) * right[-1],
            aten._scaled_dot_product_flash_attention_for_cpu: (
                lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value)
            ),
            aten._scaled_dot_product_flash_attention_for_cpu_backward: (
                lambda gradient, query, key, value, *_, **__: sdpa_backward_flop_count(gradient, query, key, value)
            ),
        },
    )


def fused_attention(counter: FlopCounterMode) -> str | None:
    """Return which of torch's fused kernels of attention ran in a context, such as `flash` or `efficient`, if one."""
    for operation in counter.get_flop_counts().get("Global", {}):
        found = re.fullmatch(r"aten\._scaled_dot_product_(\w+?)_attention(_for_cpu)?", str(operation))
        if found:
            return found[1]
    return None


def highest_mb(device: torch.device) -> float:
    """Return the highest memory of this process so far, in MiB: allocated on a GPU, resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resident_peak_mb()


def reset_peak(device: torch.device) -> None:
    """Reset the highest memory of a GPU to what is in use now; on a CPU nothing is reset."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def with_peak_mb(
    function: Callable[..., Result],
    *arguments: Any,
    device: torch.device,
    warm_up: tuple | None = None,
) -> tuple[Result, float]:
    """Return what `function(*arguments)` returns, and the highest memory in use meanwhile, in MiB.

    Memory in use before is left out. On a CPU the function runs in a process of its own, whose resident memory counts;
    so it is a function of a module, and arguments and result can be pickled.

    Args:
        function: what to measure.
        arguments: its own.
        device: where it runs.
        warm_up: arguments of a small call beforehand, which leaves out what libraries set up when they are first used.

    Raises:
        RunError: the function fails, or its process ends early.
    """
    if device.type == "cuda":
        if warm_up is not None:
            function(*warm_up)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = function(*arguments)
        return result, highest_mb(device) - before / 2**20
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([function.__module__, *PRELOADED])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        try:
            return process.submit(_with_peak, torch.get_num_threads(), function, arguments, warm_up).result()
        except Exception as error:  # any: an error of the function, or a process that was killed
            raise RunError(
                f"the process that measures the memory of {arguments} failed ({error!r}). If it ended early, the "
                "machine ran out of memory: measure shorter sequences."
            ) from error


def _with_peak(
    threads: int, function: Callable[..., Result], arguments: tuple, warm_up: tuple | None
) -> tuple[Result, float]:
    torch.set_num_threads(threads)
    if warm_up is not None:
        function(*warm_up)
    before = resident_mb()
    result = function(*arguments)
    return result, highest_mb(torch.device("cpu")) - before
