"""CUDA graphs of training steps: on short texts a GPU waits for the host, which launches hundreds of kernels.

A graph has all of them, and is launched at once. It repeats the kernels of its capture, on the same memory: so batches
are copied into its inputs, and whatever the host decides must be the same at every replay.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lib.attention.contract import mechanisms
from lib.attention.kernels import computing_by_kernels

TOKENS = 2**15
"""Most tokens of a batch, padding included. With more, a GPU is the slower of the two."""

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
            inputs["input_ids"].numel() <= TOKENS
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
