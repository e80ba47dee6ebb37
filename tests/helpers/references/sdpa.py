"""Exact attention, dense and in float64, one head at a time: for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import text_by_text
from lib.attention.sdpa.mechanism import Mechanism

EXAMPLES = {
    "sdpa-native": {"kind": "sdpa", "use_native_sdpa": True},
    "sdpa-naive": {"kind": "sdpa", "use_native_sdpa": False},
}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v; see `text_by_text`.

    Source:
        Vaswani et al. 2017, equation 1; Press et al. 2022 (ALiBi), section 3, with distances to both sides.
    """
    kernel = torch.exp(scores)
    return kernel @ value / kernel.sum(-1, keepdim=True)
