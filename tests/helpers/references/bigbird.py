"""BigBird's attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.bigbird.mechanism import Mechanism
from lib.attention.reference import softmax_where, text_by_text

EXAMPLES = {"bigbird-b4": {"kind": "bigbird", "block_size": 4, "global_blocks": 3, "random_blocks": 2}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention under the dense mask of the blocks that see each other; see `text_by_text`.

    Source:
        Zaheer et al. 2020, section 2 and figure 1.
    """
    block = torch.arange(query.shape[1]) // mechanism.settings.block_size
    count = int(block[-1]) + 1
    sees = torch.zeros(mechanism.num_heads, count, count, dtype=torch.bool)
    for of_head, lists in zip(sees, mechanism.lists(count), strict=True):
        for of_block, found in zip(of_head, lists, strict=True):
            of_block[found[found >= 0]] = True
    sees[:, mechanism.global_blocks(count)] = True
    return softmax_where(sees[:, block][:, :, block], scores, value)
