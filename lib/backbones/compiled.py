"""Compilation of a model's blocks by `torch.compile`: fewer and larger kernels, and less work for the host."""

import os
import shutil
from collections.abc import Callable, Iterator

import torch
from sympy import prevprime
from torch import Tensor, nn

from lib.attention.contract import mechanisms
from lib.core.errors import RunError, require

ROWS, TOKENS = 31, 509
"""Largest sizes of the batch that compilation sees first."""

COMPILERS = ("g++", "clang++")

VERSIONS = 64
"""Most variants of a piece that are compiled: with and without padding, in training or not, of one document or more."""


def check_compiler(device: str) -> None:
    """Refuse to compile where nothing is there to do it.

    Args:
        device: `cpu` or `cuda`.

    Raises:
        RunError: a compiler or a package is missing.
    """
    if device == "cuda":
        return require("triton", "execution.training.compile: true")
    if not any(map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))):
        raise RunError(
            f"execution.training.compile is true, but there is no C++ compiler. Expected {' or '.join(COMPILERS)}, or "
            "one that the environment variable CXX names; install one (Debian: apt install g++), or set it to false."
        )


def compile_blocks(model: nn.Module, backend: str = "inductor") -> None:
    """Compile the blocks of a model, and its vocabulary head, for batches of any size.

    Blocks of the same kind share their compiled code. A mechanism that cannot be traced is computed as before, between
    the compiled pieces of its block.

    Args:
        model: changed in place, whose lists of modules hold its blocks; names and values of its weights stay.
        backend: of `torch.compile`.
    """
    torch._dynamo.config.recompile_limit = VERSIONS
    if backend == "inductor":
        # Nothing is chosen by measuring: a choice would differ from process to process, and with it the last digits.
        torch._inductor.config.deterministic = True
    for block in _blocks(model):
        for mechanism in mechanisms(block):
            if not mechanism.is_traceable:
                mechanism.forward = torch.compiler.disable(mechanism.forward)  # type: ignore[method-assign]
        block.compile(dynamic=True, backend=backend)


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the entries of the outermost lists of modules, and modules that ask for it by `is_compiled`."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        elif getattr(child, "is_compiled", False):
            yield child
        else:
            yield from _blocks(child)


class CompiledAtFixedSizes:
    """Computes gradients, and lets a batch of fixed sizes go before the first batch of every kind.

    The order of a compiler's sums may depend on the sizes of its first batch. A training that resumes begins with
    another batch, and would end with other digits.

    Args:
        model: with compiled blocks.
        compute: returns the loss of a batch, and adds its gradients to those of the weights.
        longest: tokens of the longest text.
        most: tokens of the largest batch, padding included.
    """

    def __init__(
        self, model: nn.Module, compute: Callable[[dict[str, Tensor]], Tensor], *, longest: int, most: int
    ) -> None:
        self.model, self.compute = model, compute
        # Primes, which are no sizes of a model: compilation takes equal sizes for one.
        self.tokens = prevprime(max(3, min(longest, TOKENS)) + 1)
        self.rows = prevprime(max(3, min(most // self.tokens, ROWS)) + 1)
        self.labels = prevprime(self.rows * self.tokens // 7 + 3)
        self._seen: set[tuple] = set()

    def __call__(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the loss of a batch, and add its gradients."""
        first = self._of_fixed_sizes(batch)
        kind = tuple((name, each.shape) for name, each in first.items())
        if kind not in self._seen:
            self._seen.add(kind)
            self._compile(first)
        return self.compute(batch)

    def _compile(self, batch: dict[str, Tensor]) -> None:
        """Compute on a batch, and leave gradients and random numbers as they are."""
        weights = [weight for weight in self.model.parameters() if weight.grad is not None]
        gradients = [weight.grad for weight in weights]
        devices = {each.device for each in batch.values() if each.is_cuda}
        with torch.random.fork_rng(devices=devices):
            self.model.zero_grad()
            self.compute(batch)
            self.model.zero_grad()
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient

    def _of_fixed_sizes(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return a batch of the same kind, with fixed numbers of rows, tokens and labels unless they are one."""
        rows, tokens = batch["input_ids"].shape
        result = {}
        for name, each in batch.items():
            shape = list(each.shape)
            if name == "scored":
                shape = [_fixed(len(each), self.labels)]
            elif shape and shape[0] == rows:
                shape[0] = _fixed(rows, self.rows)
                if len(shape) > 1 and shape[1] == tokens:
                    shape[1] = _fixed(tokens, self.tokens)
            is_mask = name.endswith("_mask")
            filled = torch.ones if is_mask or name == "num_items_in_batch" else torch.zeros
            result[name] = filled(shape, dtype=each.dtype, device=each.device)
            if is_mask:
                result[name][:, 1:] = 0  # a mask without padding is left out
        return result


def _fixed(size: int, to: int) -> int:
    return size if size < 2 else to  # one or none is compiled apart
