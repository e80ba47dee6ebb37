"""LSH attention: every token looks at a window of tokens that hash alike, in time and memory linear in N.

Shapes: B batch, H heads, N tokens, d head width, R hash rounds, C tokens a chunk, L = N rounded up to whole chunks,
W tokens a window (a chunk and both neighbours).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.contract import Attention
from lib.core.randomness import derive_seed

BLOCK = 16
"""Columns of the rotations that are drawn, and hashed with, at a time."""


class Mechanism(Attention):
    """Attention within chunks of the tokens sorted by bucket; queries serve as keys.

    A sequence of n real tokens has ceil(n / C) chunks and the even number of buckets at or above that, so its
    result is a function of itself, of its seed and layer, and in training of the optimiser step. A token sees its
    own chunk and both neighbours, without wrap-around, and sees itself only where it would see nothing else.
    Hash rounds each have their own softmax and are averaged. Weight dropout acts within each round.

    Source:
        Kitaev et al. 2020, "Reformer", section 2; with the average over rounds and the choice of the bucket mask of
        the study reproduced (its equations 3.9 to 3.26). Reformer joins the rounds in one softmax.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # Not a buffer: rotations are generated, never stored. (key, blocks of columns)
        self._rotations: tuple[tuple, list[Tensor]] = ((), [])

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; `key` is `query`."""
        batch, heads, length, width = query.shape
        rounds = self.settings.num_hashes
        # A batch whose rows fit into one chunk needs neither its padding nor neighbours.
        chunk = min(self.settings.chunk_size, length)
        reach = chunk if length > chunk else 0
        if real is None:
            real = torch.ones(1, length, dtype=torch.bool, device=query.device)
        padding = -length % chunk
        buckets = functional.pad(self.hash(query, real), (0, padding), value=length)  # sorts padding to the end
        query = functional.pad(query, (0, 0, 0, padding))  # [B, H, L, d]
        value = functional.pad(value, (0, 0, 0, padding))

        buckets, order = buckets.sort(dim=-1, stable=True)  # [B, H, R, L]
        inverse = torch.empty_like(order).scatter_(
            -1, order, torch.arange(order.shape[-1], device=order.device).expand_as(order)
        )
        order, inverse = order.flatten(0, 1), inverse.flatten(0, 1)  # [BH, R, L]
        sorted_query = _Sort.apply(query.flatten(0, 1), order, inverse).flatten(0, 1)  # [BHR, L, d]
        sorted_value = _Sort.apply(value.flatten(0, 1), order, inverse).flatten(0, 1)

        allowed = self._window_mask(real, buckets, chunk, reach)  # [B or 1, HR or 1, L/C, C, W]
        output = functional.scaled_dot_product_attention(
            sorted_query.unflatten(1, (-1, chunk)),  # [BHR, L/C, C, d]
            _windows(sorted_query, chunk, reach),  # [BHR, L/C, W, d]
            _windows(sorted_value, chunk, reach),
            attn_mask=allowed.expand(batch, heads * rounds, *allowed.shape[2:]).flatten(0, 1),
            dropout_p=self.dropout if self.training else 0.0,
        )
        output = _Unsort.apply(output.reshape(batch * heads, rounds, -1, width), order, inverse) / rounds
        return output.unflatten(0, (batch, heads))[:, :, :length]

    @torch.no_grad()
    def hash(self, query: Tensor, real: Tensor) -> Tensor:
        """Return the bucket of every token: the argmax of [xR; -xR] over the columns that its sequence uses.

        Computed in float32, also under autocast, a block of columns at a time, so that memory stays linear in N.

        Args:
            query: [B, H, N, d].
            real: [B, N] or, for all rows alike, [1, N].

        Returns:
            [B, H, R, N] integers; N, above every bucket, at padding.
        """
        batch, heads, length, _ = query.shape
        rounds = self.settings.num_hashes
        limit = self._columns(real.sum(-1))[:, None, None, None]  # columns that each sequence uses
        columns = self._columns(length)
        bucket = best = None
        with torch.autocast(query.device.type, enabled=False):
            query = query.float()
            for block, rotation in enumerate(self.rotations(columns, query.device)):  # [H, d, R, BLOCK]
                width = min(BLOCK, columns - block * BLOCK)
                projection = query @ rotation[..., :width].flatten(-2)  # [B, H, N, R * width]
                projection = projection.view(batch, heads, length, rounds, width)
                column = torch.arange(block * BLOCK, block * BLOCK + width, device=query.device)
                unused = column >= limit[..., None]  # [B, 1, 1, 1, width]
                size, index = projection.abs().masked_fill_(unused, -1).max(-1)
                negative = projection.gather(-1, index[..., None]).squeeze(-1) < 0
                index = index + block * BLOCK + negative * limit
                if best is None:
                    best, bucket = size, index
                else:
                    bucket = torch.where(size > best, index, bucket)
                    best = torch.maximum(size, best)
        return bucket.masked_fill(~real[:, None, :, None], length).transpose(-1, -2).contiguous()

    def rotations(self, columns: int, device: torch.device) -> list[Tensor]:
        """Return random rotations, entries N(0, 1/d), as blocks [H, d, R, BLOCK] that hold at least `columns` columns.

        Drawn on the CPU from (seed, layer), in training also from the optimiser step; column j is the same
        whatever their number. Kept until another key is asked for.
        """
        key = (self.seed, self.layer, *([self.step] if self.training else []))
        blocks = -(-columns // BLOCK)
        if self._rotations[0] != (key, device) or len(self._rotations[1]) < blocks:
            generator = torch.Generator("cpu").manual_seed(derive_seed("lsh", *key))
            shape = (self.num_heads, self.head_size, self.settings.num_hashes, BLOCK)
            drawn = [torch.randn(shape, generator=generator, device="cpu") for _ in range(blocks)]
            self._rotations = ((key, device), [(block * self.head_size**-0.5).to(device) for block in drawn])
        return self._rotations[1][:blocks]

    def _columns(self, tokens: Any) -> Any:
        """Return half the number of buckets of a sequence of `tokens` real tokens (an integer or a tensor of them)."""
        chunks = (tokens + self.settings.chunk_size - 1) // self.settings.chunk_size
        return (chunks + 1) // 2

    def _window_mask(self, real: Tensor, buckets: Tensor, chunk: int, reach: int) -> Tensor:
        """Return which keys of its window each query sees; no query is left with none.

        Args:
            real: [B or 1, N].
            buckets: [B, H, R, L], sorted, so that the real tokens of each row come first.
            chunk: tokens in a chunk.
            reach: tokens of the window on either side of the chunk.

        Returns:
            [B or 1, HR or 1, L/C, C, W].
        """
        device = buckets.device
        start = torch.arange(0, buckets.shape[-1], chunk, device=device)
        window = torch.arange(-reach, chunk + reach, device=device)
        key = start[:, None] + window  # [L/C, W]
        present = (key >= 0) & (key < real.sum(-1)[:, None, None])  # [B, L/C, W]
        itself = window == torch.arange(chunk, device=device)[:, None]  # [C, W]
        allowed = present[:, None, :, None, :] & ~itself
        if self.settings.mask_within_chunks:
            buckets = buckets.flatten(1, 2)  # [B, HR, L]
            of_key = functional.pad(buckets, (reach, reach), value=-1).unfold(-1, chunk + 2 * reach, chunk)
            allowed = allowed & (buckets.unflatten(-1, (-1, chunk))[..., None] == of_key[..., None, :])
        return allowed | (itself & ~allowed.any(-1, keepdim=True))


def _windows(sequence: Tensor, chunk: int, reach: int) -> Tensor:
    """Return each chunk of `sequence` [G, L, d] with `reach` tokens on either side, zeros beyond: [G, L/C, W, d]."""
    return functional.pad(sequence, (0, 0, reach, reach)).unfold(1, chunk + 2 * reach, chunk).transpose(-1, -2)


def _take(rows: Tensor, index: Tensor) -> Tensor:
    """Return the rows of `rows` [G, L, d] that `index` [G, K] names: [G, K, d]."""
    offset = torch.arange(rows.shape[0], device=rows.device)[:, None] * rows.shape[1]
    return rows.flatten(0, 1).index_select(0, (index + offset).flatten()).view(*index.shape, -1)


def _spread(rows: Tensor, order: Tensor) -> Tensor:
    """Return `rows` [G, L, d] in the order of each round, [G, R, L]: [G, R, L, d]."""
    return _take(rows, order.flatten(1)).unflatten(1, order.shape[1:])


def _collect(rows: Tensor, inverse: Tensor) -> Tensor:
    """Return `rows` [G, R, L, d] put back in place by `inverse` [G, R, L] and summed over the rounds: [G, L, d]."""
    return _take(rows.flatten(0, 1), inverse.flatten(0, 1)).view(rows.shape).sum(1)


class _Sort(torch.autograd.Function):
    """Sort tokens, once a round. Its gradient puts them back: a gather, where autograd would scatter and add."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        return _spread(rows, order)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _collect(gradient, *ctx.saved_tensors), None, None


class _Unsort(torch.autograd.Function):
    """Put tokens back and sum the rounds: the adjoint of `_Sort`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return _collect(rows, inverse)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _spread(gradient, *ctx.saved_tensors), None, None
