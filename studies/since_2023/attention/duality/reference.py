"""State space duality, token by token and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from studies.since_2023.recurrences import project, read, text_by_text

EXAMPLES = {"duality": {"kind": "duality", "chunk_size": 4}}


@text_by_text
def reference(weights: dict[str, Tensor], query: Tensor, key: Tensor, value: Tensor, states: Tensor) -> Tensor:
    """Return the readings of the two states by the queries, and the token's own share; see `text_by_text`.

    Source:
        Hwang et al. 2024, section 3.
    """
    bias, rate, own_bias = (weights[name][:, None, None] for name in ("bias", "rate", "own_bias"))
    steps = torch.log1p(torch.exp(project(states, weights["steps"], len(query)) + bias))
    decay, query = torch.exp(-rate.exp() * steps), query / query.shape[-1] ** 0.5
    others = read(query, key, value, decay, steps, erases=False, counts_itself=False)
    return others + (project(states, weights["own"], len(query)) + own_bias)[0] * value
