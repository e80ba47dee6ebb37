"""Linformer, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.linformer.mechanism import Mechanism
from lib.attention.reference import text_by_text

EXAMPLES = {"linformer": {"kind": "linformer", "rank": 6, "length": 64}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return softmax(q (E k)^T / sqrt(d)) E v with the mechanism's shares E, transposed; see `text_by_text`.

    Source:
        Wang et al. 2020, equation 7.
    """
    shares = mechanism.shares.detach().double()[: key.shape[1]].T  # [K, n]
    return torch.softmax(query @ (shares @ key).mT / query.shape[-1] ** 0.5, dim=-1) @ (shares @ value)
