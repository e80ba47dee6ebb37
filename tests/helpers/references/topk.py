"""Top-k attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import softmax_where, text_by_text
from lib.attention.topk.mechanism import Mechanism

EXAMPLES = {"topk-k5": {"kind": "topk", "keys": 5}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return softmax over each query's highest scores, of all keys sorted; see `text_by_text`.

    Source:
        Gupta et al. 2021, section 2.
    """
    best = scores.detach().float().sort(descending=True, stable=True).indices[..., : mechanism.settings.keys]
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
    return softmax_where(chosen, scores, value)
