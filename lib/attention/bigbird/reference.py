"""BigBird's attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.bigbird.mechanism import Mechanism
from lib.attention.block_sparse.reference import masked_attention

EXAMPLES = {"bigbird-b4": {"kind": "bigbird", "block_size": 4, "global_blocks": 3, "random_blocks": 2}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention under the dense mask of the blocks that see each other; see `masked_attention`.

    Args:
        mechanism: gives the settings, the random blocks and the slopes of ALiBi.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Source:
        Zaheer et al. 2020, section 2 and figure 1.
    """
    size = mechanism.settings.block_size

    def mask(tokens: int) -> Tensor:
        count = -(-tokens // size)
        seen = torch.zeros(mechanism.num_heads, count, count, dtype=torch.bool)
        for head, block in torch.cartesian_prod(torch.arange(mechanism.num_heads), torch.arange(count)).tolist():
            found = mechanism.lists(count)[head, block]
            seen[head, block, found[found >= 0]] = True
        seen[:, mechanism.global_blocks(count)] = True
        return seen.repeat_interleave(size, dim=1).repeat_interleave(size, dim=2)[:, :tokens, :tokens]

    return masked_attention(mechanism, query, key, value, attention_mask, mask)
