"""Strided attention by torch's operations: every token sees those nearby, and every stride-th one.

N tokens cost O(N (stride + N / stride)) in time, O(N sqrt(N)) at the best stride, and O(N) in memory. See
`lib.attention.block_sparse`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from lib.attention.block_sparse.computation import BlockSparse, Part, in_blocks, neighbours
from lib.attention.strided.settings import Settings

SMALLEST, LARGEST = 16, 64
"""Tokens of a block. Smaller ones compute fewer unused scores, larger ones are faster."""


class Mechanism(BlockSparse):
    """Softmax attention of the token of rank i to those of rank j with |i - j| < stride or (i - j) mod stride = 0.

    Ranks count real tokens.

    Source:
        Child et al. 2019, "Generating Long Sequences with Sparse Transformers", section 4.3, strided attention, here to
        both sides, and with both patterns in one softmax: the "merged head" of section 5.1.
    """

    settings: Settings

    def parts(self, query: Tensor, key: Tensor, real: Tensor | None) -> Iterator[Part]:
        """See `BlockSparse.parts`: tokens that are multiples of the stride apart, and those nearby."""
        tokens, device = query.shape[2], query.device
        stride = min(self.settings.stride, tokens)
        classes = torch.arange(-(-tokens // stride) * stride, device=device).view(-1, stride).T
        blocks = in_blocks(classes, min(LARGEST, classes.shape[1]))  # [stride, blocks, size]
        per_class = blocks.shape[1]
        own = torch.arange(stride * per_class, device=device).view(stride, 1, per_class).expand(-1, per_class, -1)
        blocks = blocks.flatten(0, 1)
        yield Part(queries=blocks, keys=blocks, meets=own.flatten(0, 1))
        if stride > 1:
            size = min(max(SMALLEST, stride - 1), LARGEST)
            line = in_blocks(torch.arange(tokens, device=device), size)
            near = neighbours(len(line), -(-(stride - 1) // size), device)
            yield Part(queries=line, keys=line, meets=near, sees=lambda i, j: _nearby((i - j).abs_(), stride))


def _nearby(distance: Tensor, stride: int) -> Tensor:
    return (distance > 0) & (distance < stride)  # a token is in its own class
