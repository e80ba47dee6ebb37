"""Multi-head attention in dense float64, for tests of a module in place of attention."""

from typing import Any

import torch
from torch import Tensor

from lib.attention.contract import Attention

EXAMPLES = {
    "module-states": {"kind": "module", "class": "torch.nn.MultiheadAttention"},
    "module-states-mask": {"kind": "module", "class": "torch.nn.MultiheadAttention", "padding": "mask"},
}


def reference(
    mechanism: Attention, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, states: Tensor
) -> Tensor:
    """Return the output [B, H, N, d] of each row's real tokens, zeros at padding."""
    module: Any = mechanism.modules_of_directions
    weights = {name: tensor.double() for name, tensor in module[0].named_parameters()}
    output = torch.zeros_like(states)
    for row, real in enumerate(attention_mask.bool()):
        rows = states[row, real] @ weights["in_proj_weight"].T + weights["in_proj_bias"]
        q, k, v = rows.unflatten(1, (3, mechanism.num_heads, -1)).permute(1, 2, 0, 3)
        mixed = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        output[row, real] = mixed.transpose(0, 1).flatten(1) @ weights["out_proj.weight"].T + weights["out_proj.bias"]
    return output.unflatten(2, (mechanism.num_heads, -1)).transpose(1, 2)
