"""Attention within a sliding window, with global tokens, by torch's operations: every token sees those nearby.

N tokens cost O(N (width + global_tokens)) in time and O(N) in memory. See `lib.attention.block_sparse`. `kernels.py` is
for GPUs in half precision; both must equal the dense reference of the tests.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from lib.attention.block_sparse.computation import BlockSparse, Part, in_blocks, neighbours
from lib.attention.window.settings import Settings

SMALLEST, LARGEST = 16, 64
"""Tokens of a block. Smaller ones compute fewer unused scores, larger ones are faster."""


class Mechanism(BlockSparse):
    """Softmax attention of the token of rank i to those of rank j with |i - j| <= dilation * width / 2.

    Ranks count real tokens. With a dilation, i - j is a multiple of it. The first `global_tokens` tokens see all and
    are seen by all, by the same projections as the others: Longformer's global tokens have projections of their own,
    equal to the others at the start of a training.

    Source:
        Beltagy et al. 2020, "Longformer", section 3.1; its dilation is for a few heads, here it is for all.
    """

    settings: Settings

    def is_exact_at(self, query: Tensor) -> bool:
        """See `Attention.is_exact_at`; kernels take short texts, too."""
        return super().is_exact_at(query) and not self.hides_padding(query)

    def hides_padding(self, rows: Tensor) -> bool:
        """See `Attention.hides_padding`; there are no kernels for dilated windows, and none that drop weights."""
        if self.settings.dilation == 1 and not (self.dropout and self.training):
            return self.by_triton(rows)
        self.computed_by = "torch"
        return False

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `BlockSparse.attend`; by Triton kernels, products are in the type of the rows."""
        if not self.hides_padding(query):
            return super().attend(query, key, value, real)
        from lib.attention.window import kernels  # needs the package triton

        reach, few = self.settings.width // 2, self.settings.global_tokens
        return kernels.attend(query, key, value, real, self.slopes(query.device), reach=reach, global_tokens=few)

    def parts(self, query: Tensor, key: Tensor, real: Tensor | None) -> Iterator[Part]:
        """See `BlockSparse.parts`: the windows, the global tokens as keys, and as queries."""
        tokens, device = query.shape[2], query.device
        dilation = min(self.settings.dilation, tokens)
        reach = min(self.settings.width // 2, -(-tokens // dilation))  # in steps of the dilation
        number = min(self.settings.global_tokens, tokens)
        size = min(max(SMALLEST, reach), LARGEST)
        ranks = torch.arange(-(-tokens // dilation) * dilation, device=device)
        classes = in_blocks(ranks.view(-1, dilation).T, size)  # [dilation, blocks, size]
        near = neighbours(classes.shape[1], -(-reach // size), device)
        first = torch.arange(dilation, device=device)[:, None, None] * classes.shape[1]
        blocks = classes.flatten(0, 1)

        def in_window(i: Tensor, j: Tensor) -> Tensor:
            return (i - j).abs_() <= reach * dilation

        def beyond_window(i: Tensor, j: Tensor) -> Tensor:
            return ~in_window(i, j) if dilation == 1 else ~in_window(i, j) | ((i - j) % dilation != 0)

        near = (near + first).flatten(0, 1)
        yield Part(queries=blocks, keys=blocks, meets=near, sees=lambda i, j: in_window(i, j) & (i >= number))
        if number:
            few = torch.arange(number, device=device)
            one = torch.zeros(len(blocks), 1, dtype=torch.long, device=device)
            yield Part(queries=blocks, keys=few[None], meets=one, sees=lambda i, j: beyond_window(i, j) & (i >= number))
            rows = in_blocks(few, min(number, LARGEST))
            yield Part(queries=rows, keys=blocks, meets=torch.arange(len(blocks), device=device).expand(len(rows), -1))
