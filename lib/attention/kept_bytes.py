"""The bytes that a computation keeps for its backward pass."""

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor


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
