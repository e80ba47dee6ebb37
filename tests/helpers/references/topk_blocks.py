"""Top-k attention by blocks, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import softmax_where, text_by_text
from lib.attention.topk_blocks.mechanism import Mechanism

EXAMPLES = {"topk_blocks-b4-k2": {"kind": "topk_blocks", "block_size": 4, "blocks": 2}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return softmax over the tokens of the blocks that a block sees; see `text_by_text`."""
    settings = mechanism.settings
    of_queries, of_keys = (
        torch.stack([block.mean(1) for block in rows.detach().split(settings.block_size, dim=1)], dim=1)
        for rows in (query, key)
    )
    products = (of_queries @ of_keys.mT).float()  # of blocks, in each head
    sees = torch.zeros_like(products, dtype=torch.bool)
    for head, of_head in enumerate(products):
        for number, each in enumerate(of_head):
            near = [other for other in range(len(each)) if abs(other - number) <= settings.window]
            far = [other for other in each.sort(descending=True, stable=True).indices.tolist() if other not in near]
            sees[head, number, near + far[: settings.blocks]] = True
    block = torch.arange(query.shape[1]) // settings.block_size
    return softmax_where(sees[:, block][:, :, block], scores, value)
