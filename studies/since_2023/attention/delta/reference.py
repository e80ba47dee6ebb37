"""The delta rule, token by token and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from studies.since_2023.recurrences import project, read, text_by_text

EXAMPLES = {f"delta{end}": {"kind": "delta", "gated": bool(end), "chunk_size": 4} for end in ("", "-gated")}


@text_by_text
def reference(weights: dict[str, Tensor], query: Tensor, key: Tensor, value: Tensor, states: Tensor) -> Tensor:
    """Return the readings of the two states by the queries; see `text_by_text`.

    Source:
        Yang et al. 2024, "Gated Delta Networks", section 3.
    """
    query, key = (rows / torch.linalg.vector_norm(rows, dim=-1, keepdim=True) for rows in (query, key))
    strength = torch.sigmoid(project(states, weights["strength"], len(query)))
    decay = torch.ones_like(strength)
    if "rate" in weights:
        rate, bias = (weights[name].view(2, -1, 1, 1) for name in ("rate", "bias"))
        decay = torch.exp(-rate.exp() * torch.log1p(torch.exp(project(states, weights["steps"], len(query)) + bias)))
    return read(query, key, value, decay, strength, erases=True, counts_itself=True)
