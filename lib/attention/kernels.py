"""The choice between Triton kernels and torch's operations, and the launch of kernels."""

import os
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from lib.attention.settings import MECHANISMS, Kernels
from lib.core.errors import RunError

SETTING = "execution.training.kernels"
INTERPRETED = "TRITON_INTERPRET"
"""Environment variable that makes Triton run kernels in Python, slowly, also without a GPU."""

TYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 128
"""Largest width of a head, or size of its state, that fits into a processor's registers and shared memory."""

OLDEST = (8, 0)
"""Least compute capability: on GPUs before Ampere, kernels spill kilobytes of registers per thread, and are slow."""


class Launch(NamedTuple):
    """How a kernel is launched: the tiles of a program, and what Triton makes of its loop."""

    rows: int
    """Size of the data that a program keeps: tokens or draws."""
    columns: int
    """Size of the data per iteration of its loop."""
    warps: int
    stages: int
    """Iterations of the loop whose data are loaded at the same time."""


def size_class(rows: Tensor) -> str:
    """Return the key of the table of launches: `half` or `single` precision, and `wide` if heads are wider than 64."""
    return ("half" if rows.element_size() <= 2 else "single") + (" wide" if rows.shape[-1] > 64 else "")


_compiled: dict[tuple, tuple[Any, tuple]] = {}
"""Kernels by what Triton compiles them for, and the values of their constants in the order of their parameters."""


def launch(kernel: Any, programs: int, *arguments: Any, **constants: Any) -> None:
    """Start a number of programs of a kernel, like `kernel[(programs,)](*arguments, **constants)`.

    Triton binds arguments again at every launch, which takes the host longer than many a kernel takes the GPU. Here, a
    kernel that has been compiled for such arguments is started as it is.

    Args:
        kernel: a function of `triton.jit`.
        programs: their number; nothing happens without any.
        arguments: the kernel's own, a tensor first. All tensors lie on its device.
        constants: constants and options of the launch.
    """
    if not programs:
        return
    device = arguments[0].device
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):  # Triton asks for the current one
            return launch(kernel, programs, *arguments, **constants)
    key = (id(kernel), device.index, *map(_specialised, arguments), *constants.values())
    if found := _compiled.get(key):
        compiled, values = found
        compiled[programs, 1, 1](*arguments, *values)
    elif compiled := kernel[(programs,)](*arguments, **constants):  # None by the interpreter
        names = [parameter.name for parameter in kernel.params[len(arguments) :]]
        _compiled[key] = compiled, tuple(constants[name] for name in names)


def _specialised(argument: Any) -> Any:
    """Return the properties of an argument that Triton compiles for: types, numbers equal to 1 or divisible by 16.

    There are few such cases, whatever the lengths of documents and the seeds.
    """
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16 == 0
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0, argument < 2**31
    return tuple(map(_specialised, argument)) if isinstance(argument, tuple) else type(argument)


class ComputesByKernels(nn.Module):
    """A module that may have Triton kernels as well as torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: Kernels = "auto"
        self.computed_by: Literal["torch", "triton"] | None = None
        """Implementation of the last pass; None before the first one, and if there are no kernels."""

    @torch.compiler.disable
    def by_triton(self, rows: Tensor, state_size: int = 0) -> bool:
        """Decide whether to compute with Triton kernels, for modules that have some; arguments as of `by_triton`.

        Raises:
            RunError: they are asked for, and cannot run here or on such numbers.
        """
        chosen = by_triton(self.kernels, rows, state_size)
        self.computed_by = "triton" if chosen else "torch"
        return chosen


def set_kernels(model: nn.Module, kernels: Kernels) -> None:
    """Set the implementation of every module of `model` that may have kernels."""
    for module in computing_by_kernels(model):
        module.kernels = kernels


def computing_by_kernels(model: nn.Module) -> Iterator[ComputesByKernels]:
    """Yield every module of `model` that may have kernels."""
    return (module for module in model.modules() if isinstance(module, ComputesByKernels))


def by_triton(kernels: Kernels, rows: Tensor, state_size: int = 0) -> bool:
    """Return whether to compute on `rows`, whose last axis is a head's, with Triton kernels.

    `auto` takes them on a GPU in half precision, since they were measured to be faster there, and slower in single
    precision, where matrix units are of no use (benchmarks/gpu.md).

    Args:
        kernels: the requested implementation.
        rows: such as the queries [B, H, N, d].
        state_size: of a head that carries a state.

    Raises:
        RunError: Triton kernels are asked for, and cannot run here or on such numbers.
    """
    if kernels == "torch" or not rows.numel():
        return False
    reason = _reason(rows, state_size)
    if kernels == "triton" and reason:
        raise RunError(f"{SETTING} is 'triton', but {reason}; use 'auto' or 'torch'.")
    return reason is None and (kernels == "triton" or (rows.device.type == "cuda" and rows.element_size() <= 2))


def _reason(rows: Tensor, state_size: int) -> str | None:
    """Return why Triton kernels cannot compute on `rows`; None if they can."""
    if rows.dtype not in TYPES:
        expected = ", ".join(str(kind).removeprefix("torch.") for kind in TYPES)
        return f"numbers are {rows.dtype}. Expected {expected}"
    if rows.shape[-1] > WIDEST:
        return f"attention heads are {rows.shape[-1]} wide. Expected {WIDEST} at most"
    if state_size > WIDEST:
        return f"the states of heads have {state_size} numbers per channel. Expected {WIDEST} at most"
    if not _triton_is_there():
        return "the package triton is not installed. Install it (make .venv/.kernels)"
    if rows.device.type == "cuda":
        return _gpu_reason(rows.device)
    if os.environ.get(INTERPRETED) != "1":
        return (
            f"the model is on {rows.device.type}. Expected a GPU; {INTERPRETED}=1 in the environment tries the kernels "
            "without one, slowly"
        )
    return None


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None


@cache
def _gpu_reason(device: torch.device) -> str | None:
    capability = torch.cuda.get_device_capability(device)
    if capability >= OLDEST:
        return None
    found, expected = (".".join(map(str, each)) for each in (capability, OLDEST))
    return f"{torch.cuda.get_device_name(device)} has compute capability {found}. Expected {expected} (Ampere) at least"


def has_kernels(kind: str) -> bool:
    """Return whether mechanisms of a kind have Triton kernels, and Triton is there to run them."""
    return MECHANISMS.has(kind, "kernels") and _triton_is_there()
