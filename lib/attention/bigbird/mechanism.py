"""BigBird's attention by torch's operations: blocks of tokens see those nearby, global ones, and random ones.

N tokens cost O(N) in time and memory, for a given number of blocks seen. See `lib.attention.block_sparse`.
"""

import functools
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lib.attention.bigbird.settings import Settings
from lib.attention.block_sparse.computation import BlockSparse, Part, in_blocks
from lib.core.randomness import derive_seed


class Mechanism(BlockSparse):
    """Softmax attention between blocks of real tokens.

    Random blocks are a function of (seed, layer, number of real tokens), so a text keeps them whatever it is batched
    with, in training and in evaluation. They are drawn for each head and each block that is not global, without
    repetition, and never stored.

    Source:
        Zaheer et al. 2020, "Big Bird", section 2 and appendix D (its internal construction). There, and in
        transformers, two blocks are global, the first and the last one, and the window has three blocks. transformers
        draws random blocks in training only, and in evaluation shows the first block again in their place.
    """

    settings: Settings
    dense_up_to: ClassVar[int] = 768  # each head has blocks of its own, which take longer to gather

    def parts(self, query: Tensor, key: Tensor, real: Tensor | None) -> Iterator[Part]:
        """See `BlockSparse.parts`: the blocks that are not global, and those that are."""
        size, tokens, device = self.settings.block_size, query.shape[2], query.device
        blocks = in_blocks(torch.arange(tokens, device=device), size)
        # On a GPU this waits for the lengths, if there is padding.
        counts = [-(-length // size) for length in ([tokens] if real is None else real.sum(-1).tolist())]
        lists = [self.lists(count) for count in counts]
        meets = torch.full((len(lists), self.num_heads, len(blocks), max(each.shape[-1] for each in lists)), -1)
        for row, found in zip(meets, lists, strict=True):
            row[:, : found.shape[1], : found.shape[2]] = found
        # Short texts have fewer blocks than the settings say. Every head sees the same number.
        longest = max(1, *(number for found in lists for number in (found[0] >= 0).sum(-1).tolist()))
        meets = meets.sort(dim=-1, descending=True).values[..., :longest]
        yield Part(queries=blocks, keys=blocks, meets=meets.to(device))
        if self.settings.global_blocks:
            chosen = [torch.tensor(self.global_blocks(count), dtype=torch.long) for count in counts]
            few = pad_sequence(chosen, batch_first=True, padding_value=len(blocks))
            ranks = (few[:, :, None] * size + torch.arange(size)).to(device)  # beyond the text where there are fewer
            everything = torch.arange(len(blocks), device=device).expand(few.shape[1], -1)
            yield Part(queries=ranks, keys=blocks, meets=everything)

    def global_blocks(self, count: int) -> list[int]:
        """Return which of `count` blocks are global: they see all blocks, and all see them."""
        return _global_blocks(count, self.settings.global_blocks)

    def lists(self, count: int) -> Tensor:
        """Return which of `count` blocks each block sees, none of them twice [H, count, K]; -1 = no other, on the CPU.

        Global blocks, which see all, have -1 only.
        """
        settings, seed = self.settings, derive_seed("bigbird", self.seed, self.layer, count)
        return _lists(
            count, self.num_heads, settings.window_blocks // 2, settings.global_blocks, settings.random_blocks, seed
        )


def _global_blocks(count: int, number: int) -> list[int]:
    first = min(-(-number // 2), count)
    return [*range(first), *range(max(first, count - number // 2), count)]


@functools.lru_cache(maxsize=128)
def _lists(count: int, heads: int, reach: int, global_blocks: int, random_blocks: int, seed: int) -> Tensor:
    """See `Mechanism.lists`; `reach` blocks on each side are in a window."""
    few = _global_blocks(count, global_blocks)
    first = sum(block < -(-global_blocks // 2) for block in few)
    end = count - (len(few) - first)  # of the blocks that are not global
    block = torch.arange(count)[:, None]
    window = block + torch.arange(-reach, reach + 1)
    window = window.where((window >= first) & (window < end), -1)
    low, high = (block - reach).clamp(min=first), (block + reach + 1).clamp(max=end)  # the window without global blocks
    drawn = _draw(low - first + end - high, heads, random_blocks, seed)  # [heads, count, random_blocks]
    drawn = torch.where(drawn < 0, -1, torch.where(drawn < low - first, drawn + first, drawn - (low - first) + high))
    found = torch.cat([torch.tensor(few, dtype=torch.long).expand(count, -1), window], dim=-1)
    found = torch.cat([found.expand(heads, -1, -1), drawn], dim=-1)
    found[:, few] = -1
    return found


def _draw(numbers: Tensor, heads: int, count: int, seed: int) -> Tensor:
    """Return `count` different numbers below each of `numbers` [n, 1], or all of them and -1: [heads, n, count].

    Source:
        Floyd's algorithm: Bentley and Floyd 1987, "A sample of brilliance".
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    drawn = torch.full((heads, len(numbers), count), -1)
    for place in range(count):
        last = numbers[:, 0] - count + place  # the greatest one so far
        number = (torch.rand(heads, len(numbers), generator=generator, dtype=torch.float64) * (last + 1)).long()
        number = torch.where((drawn == number[..., None]).any(-1), last, number)
        drawn[..., place] = torch.where(numbers[:, 0] >= count, number, torch.where(place < numbers[:, 0], place, -1))
    return drawn
