"""Time, kept bytes, arithmetic and peak memory of a computation."""

import ctypes
import functools
import logging
import math
import multiprocessing
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from lib.core.errors import RunError
from lib.core.machine import cpu_name
from lib.core.program import resident_peak_mb

logger = logging.getLogger(__name__)

Key = TypeVar("Key")
Result = TypeVar("Result")
Computation = Callable[[], object]

REPETITIONS = 5
"""Most repetitions of a computation on a CPU."""

GPU_REPETITIONS = 30
"""Repetitions on a GPU, where a pass may take less than a millisecond."""

Queue = Literal["shared", "filled", "own"]
"""What a computation finds in a GPU's queue: what other computations have left there; so much that the GPU never waits
for a launch of its own; or nothing, so that no other's work hides its launches."""

HIGHEST_CLOCK = 2e9
"""Hz that a GPU's clock does not exceed by much, to count off seconds in its queue."""

GPU_WARM_UPS = 3
"""Runs of a computation on a GPU before it counts: the first compiles and chooses kernels, and fills the allocator."""

MATRIX = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the matrices whose product gives the machine's own rate: enough to keep all of it busy."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`. Source: malloc.h."""

PRELOADED = (
    "lib.measure.attention_cost",
    "lib.measure.training_cost",
    "transformers.models.reformer.modeling_reformer",
    "reformer_pytorch",
    "performer_pytorch",
)
"""Imported once, by the process that those which measure memory are forked from; what is not there is passed over."""


def timed(computation: Computation, device: torch.device) -> float:
    """Return the seconds that `computation` takes by itself, including work that still runs on a GPU."""
    _wait(device)
    seconds = _lap(computation, device)
    _wait(device)
    return seconds()


def _lap(computation: Computation, device: torch.device) -> Callable[[], float]:
    """Run a computation, and return what tells its seconds once the device has finished it.

    On a GPU they pass between two events in its queue. Where the queue runs empty, the GPU waits for the next launch,
    and that counts.
    """
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        computation()
        end.record()
        return lambda: start.elapsed_time(end) / 1000
    begun = time.perf_counter()
    computation()
    seconds = time.perf_counter() - begun
    return lambda: seconds


def host_seconds(computation: Computation, device: torch.device, repetitions: int = 5) -> float:
    """Return the seconds that the host takes to launch a computation on a GPU; nan on a CPU, or without repetitions."""
    if device.type != "cuda" or not repetitions:
        return math.nan
    seconds = []
    for _ in range(repetitions):
        _wait(device)
        begun = time.perf_counter()
        computation()
        seconds.append(time.perf_counter() - begun)
    _wait(device)
    return statistics.median(seconds)


def warm_up(computation: Computation, device: torch.device) -> float:
    """Run a computation before it counts, on a GPU several times, and return the seconds of the last time."""
    return [timed(computation, device) for _ in range(GPU_WARM_UPS if device.type == "cuda" else 1)][-1]


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


def interleaved(
    computations: Mapping[Key, Computation],
    repetitions: int | Mapping[Key, int],
    device: torch.device,
    queue: Queue = "shared",
    *,
    warm: bool = False,
) -> dict[Key, list[float]]:
    """Return the seconds of every repetition of every computation.

    They take turns, so that what slows the machine down for a while slows all of them down. The cache of a GPU is not
    emptied: it holds data of the computation before.

    Args:
        computations: what to measure.
        repetitions: of each.
        device: where they run.
        queue: that of a GPU.
        warm: whether each runs once before it counts.
    """
    on_gpu = device.type == "cuda"
    if isinstance(repetitions, int):
        repetitions = dict.fromkeys(computations, repetitions)
    for computation in computations.values() if warm else ():
        warm_up(computation, device)
    busy = {key: host_seconds(each, device, 2) if queue == "filled" else 0.0 for key, each in computations.items()}
    laps: dict[Key, list[Callable[[], float]]] = {key: [] for key in computations}
    _wait(device)
    for turn in range(max(repetitions.values(), default=0)):
        for key, computation in computations.items():
            if turn < repetitions[key]:
                if on_gpu and queue == "filled":
                    torch.cuda._sleep(int((2 * busy[key] + 1e-4) * HIGHEST_CLOCK))
                elif queue == "own":
                    _wait(device)
                laps[key].append(_lap(computation, device))
    _wait(device)
    return {key: [seconds() for seconds in each] for key, each in laps.items()}


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


def processor(device: torch.device) -> str:
    """Return the name of what computes on `device`: that of the GPU, or of the CPU as its maker writes it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name()


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


class KeptBytes(torch.autograd.graph.saved_tensors_hooks):
    """Context that counts what forward passes keep for the backward pass: each storage once.

    Args:
        parameters: tensors that are not counted.
    """

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        super().__init__(self._count, lambda tensor: tensor)
        self._left_out = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._kept: dict[int, int] = {}

    def __enter__(self) -> Self:  # type: ignore[override] # torch returns None, for want of a use
        """Begin to count."""
        super().__enter__()
        return self

    @property
    def total(self) -> int:
        """Bytes."""
        return sum(self._kept.values())

    def _count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._left_out:
            self._kept[storage.data_ptr()] = storage.nbytes()
        return tensor


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


def resident_mb() -> float:
    """Return the resident memory of this process, in MiB."""
    import psutil  # of no use on a GPU, whose machine may lack it

    return psutil.Process().memory_info().rss / 2**20


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


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
