"""Differential attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import text_by_text
from studies.since_2023.attention.differential.mechanism import Mechanism

EXAMPLES = {"differential": {"kind": "differential"}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return the normalised difference of two softmax maps; see `text_by_text`.

    Source:
        Ye et al. 2024, equations 1 to 3.
    """
    first = 0.8 - 0.6 * torch.exp(torch.tensor(-0.3 * mechanism.layer, dtype=torch.float64))
    one, two, three, four = mechanism.get_parameter("factors").double()
    factor = torch.exp(one @ two) - torch.exp(three @ four) + first
    # [map, H, n, d / 2]: every second pair of dimensions
    queries, keys = (rows.unflatten(-1, (-1, 2, 2)).movedim(-2, 0).flatten(-2) for rows in (query, key))
    maps = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1)
    mixed = (maps[0] - factor * maps[1]) @ value
    mixed = mixed / torch.sqrt(mixed.square().mean(-1, keepdim=True) + 1e-5)
    return mixed * mechanism.get_parameter("gain").double() * (1 - first)
