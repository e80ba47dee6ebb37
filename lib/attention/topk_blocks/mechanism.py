"""Top-k attention by blocks in torch's operations, on every device: a block attends to a window and to chosen blocks.

Linear in N in memory, and in time except the choice, which compares all pairs of blocks. See
`lib.attention.block_sparse`.

Shapes: B batch, H heads, N tokens, d head width, n blocks.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.block_sparse.computation import BlockSparse, Part, by_rank, in_blocks
from lib.attention.contract import ranks
from lib.attention.topk_blocks.settings import Settings


class Mechanism(BlockSparse):
    """Softmax attention of each block of queries to its own block, `window` blocks on either side, and the best others.

    Blocks hold `block_size` real tokens each, in their order; the last one of a row may hold fewer. The best blocks of
    keys are those whose mean key has the highest product with the mean query, for each head, compared in float32; of
    equal ones the earlier wins. A text of no more blocks than a block sees has exact attention. ALiBi lowers the
    scores, not the products of the means. The choice has no gradient.

    Source:
        Lu et al. 2025, "MoBA: Mixture of Block Attention for Long-Context LLMs", section 2.2, which chooses by the mean
        key of a block, too, but for each query and only among earlier blocks; Yuan et al. 2025, "Native Sparse
        Attention", section 3.3, which chooses by learned means, once for several heads, and adds a window.
    """

    settings: Settings
    needs_clean_padding = True  # the last block of a text is averaged with the padding in it

    @torch.no_grad()
    def parts(self, query: Tensor, key: Tensor, real: Tensor | None) -> Iterator[Part]:
        """See `BlockSparse.parts`."""
        blocks = in_blocks(torch.arange(query.shape[2], device=query.device), self.settings.block_size)
        count, window = len(blocks), min(self.settings.window, len(blocks) - 1)
        sizes = (blocks < ranks(real, query)[1][:, None, None]).sum(-1)[:, None]  # [B or 1, 1, n]
        order = by_rank(query, real)
        means = [self._sums(rows, order) / sizes.clamp(min=1)[..., None] for rows in (query, key)]
        with torch.autocast(query.device.type, enabled=False):
            products = means[0] @ means[1].mT  # [B, H, n, n]
        block = torch.arange(count, device=query.device)
        near = (block[:, None] - block).abs() <= window
        products.masked_fill_(near | (sizes == 0)[..., None, :], float("-inf"))
        best, chosen = (
            each[..., : self.settings.blocks] for each in products.sort(dim=-1, descending=True, stable=True)
        )
        local = block[:, None] + torch.arange(-window, window + 1, device=query.device)
        local = local.where((local >= 0) & (local < count), -1).expand(*products.shape[:3], -1)
        yield Part(
            queries=blocks, keys=blocks, meets=torch.cat([local, chosen.where(best > float("-inf"), -1)], dim=-1)
        )

    def _sums(self, rows: Tensor, order: Tensor) -> Tensor:
        """Return the sum of the rows of every block [B, H, n, d], in float32."""
        rows = rows.float().gather(2, order[:, None, :, None].expand(rows.shape))
        size = self.settings.block_size
        return functional.pad(rows, (0, 0, 0, -rows.shape[2] % size)).unflatten(2, (-1, size)).sum(3)
