"""Distributed training: sums, gathers and agreements between processes, one per device.

`torchrun` starts the processes, and each runs the whole program on its share of every batch. Only the first writes
files. Before every optimiser step all get the sum of their gradients, so they may have different numbers of documents,
or none, and weights may be frozen and unfrozen. With a single process every function returns its argument.
"""

import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from lib.core.errors import RunError

TORCHRUN_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Environment variables of torchrun with the numbers of processes; removed, since other libraries would use them."""

Value = TypeVar("Value")


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes started by torchrun, if any; each sees one of the GPUs, if there are any.

    Call it before anything uses a GPU.

    Raises:
        RunError: there are fewer GPUs than processes.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield
        return
    _take_gpu(int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
    # Data loader workers are not forked from this process: a thread of the process group may hold a lock of Python at
    # that moment, and the new process would wait for it without end.
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["lib.training.run"])
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    for name in TORCHRUN_VARIABLES:
        del os.environ[name]
    torch.set_num_threads(max(1, torch.get_num_threads() // count()))
    if index():
        logging.disable(logging.INFO)  # the first one logs the same
    yield
    dist.destroy_process_group()


def _take_gpu(number: int, processes: int) -> None:
    """Restrict this process to its own GPU."""
    gpus = torch.cuda.device_count()
    if not gpus:
        return
    if gpus < processes:
        raise RunError(
            f"{processes} processes share the training, but there are {gpus} GPUs. Ask for more, or lower "
            "execution.gpus_per_run; CUDA_VISIBLE_DEVICES='' trains on the CPU."
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number] if visible else str(number)


def count() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def index() -> int:
    """Return the number of this process; the first, 0, writes the files."""
    return dist.get_rank() if dist.is_initialized() else 0


def total(value: Tensor) -> Tensor:
    """Return the sum of a tensor over all processes."""
    if dist.is_initialized():
        value = value.clone()
        dist.all_reduce(value)
    return value


def largest(value: float) -> float:
    """Return the largest of the processes' values."""
    if dist.is_initialized():
        values = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        value = values.item()
    return value


def first(value: Value) -> Value:
    """Return the value of the first process."""
    if dist.is_initialized():
        values = [value]
        dist.broadcast_object_list(values)
        value = values[0]
    return value


def in_turns(values: Sequence[Value]) -> list[Value]:
    """Return the values of all processes, interleaved: the first of each, then the second of each, and so on."""
    if not dist.is_initialized():
        return list(values)
    everyone: list[list[tuple[Value]]] = [[]] * count()
    dist.all_gather_object(everyone, [(value,) for value in values])
    return [value for held in chain.from_iterable(zip_longest(*everyone, fillvalue=())) for value in held]


def add_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Sum the gradients of the weights over all processes; a weight without a gradient in any process keeps none."""
    if not dist.is_initialized():
        return
    weights = list(parameters)
    holders = total(torch.tensor([weight.grad is not None for weight in weights], dtype=torch.int32))
    sums = []
    for weight, held in zip(weights, holders.tolist(), strict=True):
        if held:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            sums.append(dist.all_reduce(weight.grad, async_op=True))
    for each in sums:
        each.wait()


def wait() -> None:
    """Wait until all processes have reached this call."""
    if dist.is_initialized():
        dist.barrier()
