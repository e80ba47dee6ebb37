"""Linear layers that oneDNN computes.

torch multiplies matrices of float32 by MKL, which computes with AVX2 on processors that are not Intel's even if they
have AVX-512. oneDNN, a part of torch, uses AVX-512 there, too. Results differ in the last digits.
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.core.machine import cpu_maker

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
