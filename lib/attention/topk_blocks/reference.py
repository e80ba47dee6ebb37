"""Top-k attention by blocks, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.topk_blocks.mechanism import Mechanism

EXAMPLES = {"topk_blocks-b4-k2": {"kind": "topk_blocks", "block_size": 4, "blocks": 2}}


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return softmax over the tokens of the blocks that a block sees, zeros at padding.

    Args:
        mechanism: gives the size and number of blocks, the window and the slopes of ALiBi, if any.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].
    """
    settings, slopes = mechanism.settings, mechanism.slopes(query.device)
    output = torch.zeros_like(value)
    for row, head in torch.cartesian_prod(torch.arange(query.shape[0]), torch.arange(query.shape[1])).tolist():
        real = attention_mask[row].nonzero().squeeze(-1)
        if not len(real):
            continue
        q, k, v = (tensor[row, head, real] for tensor in (query, key, value))
        of_queries, of_keys = (
            torch.stack([block.mean(0) for block in rows.detach().split(settings.block_size)]) for rows in (q, k)
        )
        products = (of_queries @ of_keys.T).float()
        block = torch.arange(len(real)) // settings.block_size
        sees = torch.zeros(len(products), len(products), dtype=torch.bool)
        for number, each in enumerate(products):
            near = [other for other in range(len(each)) if abs(other - number) <= settings.window]
            far = [other for other in each.sort(descending=True, stable=True).indices.tolist() if other not in near]
            sees[number, near + far[: settings.blocks]] = True
        scores = q @ k.T / q.shape[-1] ** 0.5
        if slopes is not None:
            scores = scores - slopes[head] * (real[:, None] - real).abs()
        output[row, head, real] = scores.masked_fill(~sees[block][:, block], float("-inf")).softmax(-1) @ v
    return output
