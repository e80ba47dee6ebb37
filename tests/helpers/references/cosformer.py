"""cosFormer, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import math

import torch
from torch import Tensor

from lib.attention.cosformer.mechanism import Mechanism
from lib.attention.reference import text_by_text

EXAMPLES = {"cosformer": {"kind": "cosformer", "eps": 1e-2}}  # at 1e-6, gradients by a feature near 0 round to 6e-5


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention by the kernel of all pairs of tokens; see `text_by_text`.

    Source:
        Qin et al. 2022, equation 10, with the text's own number of tokens in place of M.
    """
    query, key = (torch.clamp(rows, min=0) + mechanism.settings.eps for rows in (query, key))
    places = torch.arange(query.shape[1], dtype=torch.float64)
    kernel = query @ key.mT * torch.cos(math.pi / 2 * (places[:, None] - places) / len(places))  # [H, n, n]
    return kernel @ value / kernel.sum(-1, keepdim=True)
