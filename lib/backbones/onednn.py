"""Linear layers that oneDNN computes, for predictions on a CPU.

torch multiplies matrices of float32 by MKL, which computes with AVX2 on processors that are not Intel's even if they
have AVX-512. oneDNN, a part of torch, uses AVX-512 there, too. Results differ in the last digits.
"""

import functools

import torch
from torch import Tensor, nn


def use_onednn(model: nn.Module) -> None:
    """Compute the linear layers of a model in float32 on an x86-64 CPU by oneDNN from now on, without gradients.

    Other layers and devices stay as they are. oneDNN keeps the weights in an order of its own, so a later change of
    the weights has no effect.

    Args:
        model: with its final weights, on its device.
    """
    if not (torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability().startswith("AVX")):
        return
    for layer in model.modules():
        # Classes derived from it, such as layers in four bits, compute otherwise.
        if type(layer) is nn.Linear and layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu":
            ordered = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())
            layer.forward = functools.partial(_linear, ordered, layer.bias)  # type: ignore[method-assign]  # of this one


def _linear(weight: Tensor, bias: Tensor | None, states: Tensor) -> Tensor:
    """Return [..., C] of states [..., D]; the weight [C, D] is in the order of oneDNN.

    Source:
        `torch.compile` uses the same operation for linear layers; torch has no public name for it.
    """
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
