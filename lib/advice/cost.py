"""The processor and the memory of this process, and the bytes that a computation keeps."""

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor

from lib.core.machine import cpu_name


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
