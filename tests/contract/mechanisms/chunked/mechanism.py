"""Attention within chunks by torch's operations."""

from collections.abc import Iterator

import torch
from torch import Tensor

from lib.attention.block_sparse.computation import BlockSparse, Part, in_blocks


class Mechanism(BlockSparse):
    """Attention of a chunk of real tokens to itself and to the chunk before it."""

    def parts(self, lengths: Tensor | None, tokens: int, device: torch.device) -> Iterator[Part]:
        """See `BlockSparse.parts`."""
        chunks = in_blocks(torch.arange(tokens, device=device), self.settings.size)
        number = torch.arange(len(chunks), device=device)
        yield Part(queries=chunks, keys=chunks, meets=torch.stack([number - 1, number], dim=-1))
