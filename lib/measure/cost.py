"""Time, kept bytes, arithmetic and peak memory of a computation."""

import math
import multiprocessing
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from lib.core.errors import RunError
from lib.core.memory import resident_peak_mb

Key = TypeVar("Key")
Result = TypeVar("Result")

REPETITIONS = 5
"""Most repetitions of a computation."""

MATRIX = 2048
"""Rows and columns of the matrices whose product gives the machine's own rate."""


PRELOADED = [
    "lib.measure.attention_cost",
    "lib.measure.training_cost",
    "transformers.models.reformer.modeling_reformer",
    "reformer_pytorch",
    "performer_pytorch",
]
"""Imported once, by the process that those which measure memory are forked from; what is not there is passed over."""


def timed(computation: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that `computation` takes, what it leaves running on a GPU included."""
    _wait(device)
    start = time.perf_counter()
    computation()
    _wait(device)
    return time.perf_counter() - start


def interleaved(
    computations: Mapping[Key, Callable[[], object]], repetitions: Mapping[Key, int], device: torch.device
) -> dict[Key, list[float]]:
    """Return the seconds of every repetition of every computation.

    They take turns, so that what slows the machine down for a while slows all of them down.
    """
    seconds: dict[Key, list[float]] = {key: [] for key in computations}
    for turn in range(max(repetitions.values())):
        for key, computation in computations.items():
            if turn < repetitions[key]:
                seconds[key].append(timed(computation, device))
    return seconds


def repeated(
    computations: Mapping[Key, Callable[[], object]],
    expected: Mapping[Key, float],
    seconds: float,
    device: torch.device,
) -> dict[Key, list[float]]:
    """Return the seconds of as many repetitions of every computation as its time allows.

    Args:
        computations: what to measure, taking turns.
        expected: seconds that a computation is known to take at least, if anything is known.
        seconds: time for the repetitions of one; one at least, and `REPETITIONS` at most.
        device: where they run.
    """
    known = dict(expected)
    for key, computation in computations.items():
        # What is slow anyway needs to warm up only once.
        if key not in known or known[key] < seconds / REPETITIONS:
            known[key] = timed(computation, device)
    repetitions = {key: min(REPETITIONS, max(1, round(seconds / known[key]))) for key in computations}
    return interleaved(computations, repetitions, device)


def matrix_rate(device: torch.device, dtype: torch.dtype, repetitions: int = 9) -> float:
    """Return the floating-point operations a second of the best of some large matrix products."""
    left, right = (torch.randn(MATRIX, MATRIX, device=device, dtype=dtype) for _ in range(2))
    timed(lambda: left @ right, device)
    return 2 * MATRIX**3 / min(timed(lambda: left @ right, device) for _ in range(repetitions))


def processor(device: torch.device) -> str:
    """Return the name of what computes on `device`: that of the GPU, or of the CPU as its maker writes it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    listed = Path("/proc/cpuinfo")  # Linux; elsewhere the system's own word has to do
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


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
            aten.baddbmm_: lambda total, left, right, **_: 2 * math.prod(left) * right[-1],
            aten._scaled_dot_product_flash_attention_for_cpu: (
                lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value)
            ),
            aten._scaled_dot_product_flash_attention_for_cpu_backward: (
                lambda gradient, query, key, value, *_, **__: sdpa_backward_flop_count(gradient, query, key, value)
            ),
        },
    )


def highest_mb(device: torch.device) -> float:
    """Return the highest memory of this process so far, in MiB: allocated on a GPU, resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resident_peak_mb()


def with_peak_mb(
    function: Callable[..., Result],
    *arguments: Any,
    device: torch.device,
    warm_up: tuple | None = None,
    preloaded: Sequence[str] = PRELOADED,
) -> tuple[Result, float]:
    """Return what `function(*arguments)` returns, and the highest memory in use meanwhile, in MiB.

    Memory in use before is left out. On a CPU the function runs in a process of its own, whose resident memory counts;
    so it is a function of a module, and arguments and result can be pickled.

    Args:
        function: what to measure.
        arguments: its own.
        device: where it runs.
        warm_up: arguments of a small call beforehand, which leaves out what libraries set up when they are first used.
        preloaded: modules imported once, before processes are forked; those of the first call count.

    Raises:
        RunError: that process ended early.
    """
    if device.type == "cuda":
        if warm_up is not None:
            function(*warm_up)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = function(*arguments)
        return result, highest_mb(device) - before / 2**20
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preloaded))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_peak, args=(sender, torch.get_num_threads(), function, arguments, warm_up))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise RunError(
            f"the process that measures the memory of {arguments} ended early; see above for its error. If there is "
            "none, the machine ran out of memory: measure shorter sequences."
        ) from None
    finally:
        process.join()


def _send_peak(
    sender: Connection, threads: int, function: Callable[..., object], arguments: tuple, warm_up: tuple | None
) -> None:
    torch.set_num_threads(threads)
    if warm_up is not None:
        function(*warm_up)
    before = psutil.Process().memory_info().rss
    result = function(*arguments)
    sender.send((result, highest_mb(torch.device("cpu")) - before / 2**20))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
