"""LoLCATs' attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import text_by_text
from studies.conversion.attention.lolcats.mechanism import Mechanism

EXAMPLES = {
    "lolcats": {"kind": "lolcats", "block_size": 3, "window_blocks": 3},
    "lolcats-b7-w1": {"kind": "lolcats", "block_size": 7, "window_blocks": 1},
}


def features(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return the softmax of [Wx, -Wx] [H, n, 2 d] for `rows` x [H, n, d], by each head's W^T [H, d, d]."""
    mapped = torch.einsum("hnd,hde->hne", rows, matrix.double())
    return torch.cat([mapped, -mapped], dim=-1).softmax(-1)


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention by the weights of all pairs of tokens; see `text_by_text`.

    Source:
        Zhang et al. 2024, "LoLCATs".
    """
    settings = mechanism.settings
    factor = torch.sigmoid(mechanism.factor.double())[:, None, None]
    block = torch.arange(query.shape[1]) // settings.block_size
    near = (block[:, None] - block).abs() <= settings.window_blocks // 2
    scores = scores.masked_fill(~near, float("-inf"))
    kernel = features(query, mechanism.of_queries.matrix) @ features(key, mechanism.of_keys.matrix).mT
    weights = torch.where(near, factor * torch.exp(scores - scores.amax(-1, keepdim=True)), kernel)
    return weights @ value / weights.sum(-1, keepdim=True)
