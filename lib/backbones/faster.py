"""Faster training steps: compiled blocks, CUDA graphs, and linear layers by oneDNN.

On short texts a GPU waits for the host, which launches hundreds of kernels. A graph has all of them, and is launched at
once; it repeats the kernels of its capture on the same memory. torch multiplies matrices of float32 by MKL, which
computes with AVX2 on processors that are not Intel's even if they have AVX-512; oneDNN, a part of torch, uses AVX-512
there, too, and its results differ in the last digits.
"""

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from sympy import prevprime
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import mechanisms
from lib.attention.kernels import computing_by_kernels
from lib.core.errors import RunError, require
from lib.core.machine import cpu_maker

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


MOST_TOKENS = 2**15
"""Most tokens of a batch of a graph, padding included. With more, a GPU is the slower of the two."""

GRAPHS = 32
"""Most graphs that are kept."""

Inputs = dict[str, Tensor]


class _Graph(NamedTuple):
    """A captured computation: its inputs and its result have fixed memory."""

    replay: Callable[[], None]
    inputs: dict[str, Tensor]
    result: Tensor
    draws: list[int]
    """Addresses of the random numbers that it reads."""


class Graphs:
    """Computes losses and adds their gradients, by a graph for each shape of the inputs once it has come up twice.

    Gradients must keep their memory from step to step, which are set to zero instead of being dropped. Random numbers
    come from torch's generator of the GPU, as without graphs.

    Args:
        model: in training.
        compute: returns the loss of inputs, and adds its gradients to those of the weights, without waiting for the
            GPU.
    """

    def __init__(self, model: nn.Module, compute: Callable[[Inputs], Tensor]) -> None:
        self.compute = compute
        self.mechanisms = list(mechanisms(model))
        self.others = [each for each in computing_by_kernels(model) if each not in self.mechanisms]
        self.graphs: dict[tuple, _Graph | None] = {}
        self._memory: Any = None
        self._stream: Any = None

    def __call__(self, inputs: Inputs) -> Tensor:
        """Return the loss, and add its gradients.

        Args:
            inputs: on the GPU.
        """
        key = tuple((name, each.shape, each.dtype) for name, each in inputs.items())
        if key not in self.graphs:
            if len(self.graphs) < GRAPHS:
                self.graphs[key] = None
            return self._first(inputs)
        if not self._may_be_captured(inputs):
            return self.compute(inputs)
        draws = self._draws(inputs)
        graph = self.graphs[key]
        if graph is None or graph.draws != draws:
            graph = self.graphs[key] = self._captured(inputs, draws)
        for name, each in inputs.items():
            graph.inputs[name].copy_(each, non_blocking=True)
        graph.replay()
        return graph.result.clone()

    def clear(self) -> None:
        """Forget all graphs, as other weights train now."""
        self.graphs.clear()

    def _may_be_captured(self, inputs: Inputs) -> bool:
        """Whether the host decides nothing within a step that may differ at the next one."""
        return (
            inputs["input_ids"].numel() <= MOST_TOKENS
            and all(each.may_be_captured for each in self.mechanisms)
            and all(each.computed_by == "triton" for each in self.others)
        )

    def _first(self, inputs: Inputs) -> Tensor:
        """Compute without a graph, on a stream of its own: it compiles, and libraries prepare themselves.

        On the usual stream, some of that would make the stream part of a capture, which is refused.
        """
        self._stream = self._stream or torch.cuda.Stream()
        usual = torch.cuda.current_stream()
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            loss = self.compute(inputs)
        usual.wait_stream(self._stream)
        return loss

    def _draws(self, inputs: Inputs) -> list[int]:
        """Let mechanisms draw the random numbers of this step, and return their addresses."""
        ids = inputs["input_ids"]
        found = (each.draw_for(ids.shape[1], ids.device) for each in self.mechanisms)
        return [each.data_ptr() for each in found if each is not None]

    def _captured(self, inputs: Inputs, draws: list[int]) -> _Graph:
        self._memory = self._memory or torch.cuda.graph_pool_handle()  # of all graphs, as one is replayed at a time
        graph = torch.cuda.CUDAGraph()
        own = {name: each.clone() for name, each in inputs.items()}
        with torch.cuda.graph(graph, pool=self._memory):
            result = self.compute(own)
        return _Graph(graph.replay, own, result, draws)


LEAST = 4_000_000
"""From this number of multiplications on oneDNN is faster: its calls take longer to begin."""


def use_onednn(model: nn.Module) -> None:
    """Let oneDNN compute the linear layers of a model in float32 where that is faster.

    It is faster on processors with AVX-512 that are not Intel's. Layers of derived classes, such as those in four bits,
    stay as they are, and so do other devices and number types.

    Args:
        model: whose layers change their class.
    """
    if _faster():
        for layer in model.modules():
            if type(layer) is nn.Linear:
                layer.__class__ = Linear


@functools.cache
def _faster() -> bool:
    capability = torch.backends.cpu.get_cpu_capability()
    return torch.backends.mkldnn.is_available() and capability == "AVX512" and cpu_maker() != "GenuineIntel"


class Linear(nn.Linear):
    """A linear layer that oneDNN computes where it is faster than torch."""

    def forward(self, states: Tensor) -> Tensor:
        """Return [..., C] of states [..., D]."""
        plain = states.dtype == self.weight.dtype == torch.float32 and states.device.type == "cpu"
        if (
            torch.compiler.is_compiling()
            or not plain
            or states.numel() * self.out_features < LEAST
            or torch.is_autocast_enabled("cpu")
        ):
            return functional.linear(states, self.weight, self.bias)
        return _Product.apply(states, self.weight, self.bias)


class _Product(torch.autograd.Function):
    """Products of states [..., D] with weights [C, D], plus a bias [C], and their gradients."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return [..., C]."""
        of_states, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(states if of_weight else None, weight if of_states else None)
        return _product(states, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of states, weight and bias."""
        states, weight = ctx.saved_tensors
        of_states, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (
            _product(gradient, weight.t()) if of_states else None,
            _product(rows.t(), states.reshape(-1, states.shape[-1]).t()) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return [..., C] of [..., D] and [C, D].

    Source:
        `torch.compile` uses the same operation for linear layers; torch has no public name for it.
    """
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
