"""Gated linear attention, token by token and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from studies.since_2023.recurrences import project, read, text_by_text

EXAMPLES = {"gated_linear": {"kind": "gated_linear", "chunk_size": 4}}


@text_by_text
def reference(weights: dict[str, Tensor], query: Tensor, key: Tensor, value: Tensor, states: Tensor) -> Tensor:
    """Return the readings of the two states by the queries; see `text_by_text`.

    Source:
        Yang et al. 2023, equation 3.
    """
    logits = project(states @ weights["narrow"], weights["wide"], len(query))
    decay = torch.sigmoid(logits + weights["bias"].view(2, len(query), 1, -1)) ** (1 / 16)
    ones = torch.ones_like(decay[..., :1])
    return read(query / query.shape[-1] ** 0.5, key, value, decay, ones, erases=False, counts_itself=True)
