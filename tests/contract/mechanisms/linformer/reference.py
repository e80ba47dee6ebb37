"""Dense truth of Linformer."""

import torch
from torch import Tensor

EXAMPLES = {"linformer": {"kind": "linformer"}}


def reference(mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return softmax(q (E k)^T / sqrt(d)) F v over the real tokens of each row, zeros at padding."""
    output = torch.zeros_like(value)
    for row, head in torch.cartesian_prod(torch.arange(query.shape[0]), torch.arange(query.shape[1])).tolist():
        real = attention_mask[row].nonzero().squeeze(-1)
        of_keys, of_values = mechanism.features.double()[:, :, : len(real)]
        q, k, v = (tensor[row, head, real] for tensor in (query, key, value))
        output[row, head, real] = torch.softmax(q @ (of_keys @ k).T / q.shape[-1] ** 0.5, dim=-1) @ of_values @ v
    return output
