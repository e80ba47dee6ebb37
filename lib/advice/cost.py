"""Time and kept bytes of a computation."""

import time
from collections.abc import Callable, Iterable
from typing import Self

import torch
from torch import Tensor

from lib.core.machine import cpu_name

Computation = Callable[[], object]


def timed(computation: Computation, device: torch.device) -> float:
    """Return the seconds that `computation` takes by itself, including work that still runs on a GPU."""
    wait(device)
    seconds = lap(computation, device)
    wait(device)
    return seconds()


def wait(device: torch.device) -> None:
    """Wait until a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def lap(computation: Computation, device: torch.device) -> Callable[[], float]:
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


def processor(device: torch.device) -> str:
    """Return the name of what computes on `device`: that of the GPU, or of the CPU as its maker writes it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


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


def resident_mb() -> float:
    """Return the resident memory of this process, in MiB."""
    import psutil  # of no use on a GPU, whose machine may lack it

    return psutil.Process().memory_info().rss / 2**20
