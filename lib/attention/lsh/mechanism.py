"""LSH attention by torch's operations, on every device: every token attends to a window of tokens with similar hashes.

Linear in N in time and memory. `kernels.py` is faster on GPUs in half precision; both must equal the reference of the
tests.

Shapes: B batch, H heads, N tokens, d head width, R hash rounds, C tokens per chunk, L = N rounded up to whole chunks,
W tokens per window (a chunk and both neighbours).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import Attention
from lib.attention.lsh.settings import Settings
from lib.core.randomness import derive_seed

BLOCK = 16
"""Columns of the rotations that are drawn, and hashed with, at a time."""

SCORES = {"cpu": 2**19, "gpu": 2**27}
"""Number of scores in memory at a time: on a CPU they fit its cache, on a GPU they keep it busy."""

ITSELF, ABSENT = -1e30, -2e30
"""Added to scores. Finite, so that a token sees itself where all others are absent, and nothing is ever nan."""


class Mechanism(Attention):
    """Attention within chunks of the tokens sorted by bucket; queries serve as keys.

    A sequence of n real tokens has ceil(n / C) chunks and the even number of buckets at or above that, so its
    result is a function of itself, of its seed and layer, and in training of the optimiser step. A token sees its
    own chunk and both neighbours, without wrap-around, and sees itself only where it would see nothing else.
    Hash rounds each have their own softmax and are averaged, or are joined in one softmax. Weight dropout acts within
    each round. ALiBi lowers the scores in the windows; buckets depend on content alone.

    Source:
        Kitaev et al. 2020, "Reformer", section 2 and, for `join: union`, appendix A; with the average over rounds and
        the choice of the bucket mask of the study reproduced (its equations 3.9 to 3.26).
    """

    settings: Settings
    needs_clean_padding = False

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        # Not a buffer: rotations are generated, never stored. (key, blocks of columns)
        self._rotations: tuple[tuple, Tensor] = ((), torch.empty(0, device="cpu"))

    def is_exact_at(self, query: Tensor) -> bool:
        """See `Attention.is_exact_at`: with dropout, rounds are averages of several draws, so they are computed."""
        dropout = self.dropout and self.training
        return super().is_exact_at(query) and not dropout and not self.hides_padding(query)

    def exact_bias(self, query: Tensor) -> Tensor:
        """See `Attention.exact_bias`: a token sees itself only where it would see nothing else."""
        length = query.shape[2]
        itself = torch.zeros(1, 1, length, length, dtype=query.dtype, device=query.device)
        itself.diagonal(dim1=-2, dim2=-1).fill_(ITSELF)
        bias = super().exact_bias(query)
        return itself if bias is None else bias + itself

    def hides_padding(self, rows: Tensor) -> bool:
        """See `Attention.hides_padding`; there are no kernels for `join: union`."""
        if self.settings.join == "mean":
            return self.by_triton(rows)
        self.computed_by = "torch"
        return False

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; `key` is `query`.

        Computed in float32 at least, also under autocast; by Triton kernels, products are in the type of the rows.
        """
        length = query.shape[2]
        dropout = self.dropout if self.training else 0.0
        # Dropout's own, global generator decides; the backward pass repeats the draws.
        seed = int(torch.randint(2**62, ())) if dropout else 0
        if self.hides_padding(query):
            from lib.attention.lsh import kernels

            chunk, masked = self.settings.chunk_size, self.settings.mask_within_chunks
            given = self.rotations(self._columns(length), query.device), self.slopes(query.device)
            return kernels.attend(query, value, real, *given, chunk=chunk, masked=masked, dropout=dropout, seed=seed)
        if real is None:
            real = torch.ones(1, length, dtype=torch.bool, device=query.device)
        # A batch whose rows fit into one chunk needs neither its padding nor neighbours.
        chunk = min(self.settings.chunk_size, length)
        buckets = functional.pad(self.hash(query, real), (0, -length % chunk), value=length)  # sorts padding to the end
        buckets, order = (tensor.flatten(0, 1).int() for tensor in buckets.sort(dim=-1, stable=True))  # [BH, R, L]
        window = _Window(
            chunk=chunk,
            reach=chunk if length > chunk else 0,
            scale=self.head_size**-0.5,
            dropout=dropout,
            seed=seed,
            slopes=self.slopes(query.device),
            union=self.settings.join == "union",
        )
        shown = buckets if self.settings.mask_within_chunks else None
        with torch.autocast(query.device.type, enabled=False):
            return _AttendInWindows.apply(query, value, order, real.sum(-1), shown, window)

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
        best = bucket = torch.empty(0)
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
                if block == 0:
                    best, bucket = size, index
                else:
                    bucket = torch.where(size > best, index, bucket)
                    best = torch.maximum(size, best)
        return bucket.masked_fill(~real[:, None, :, None], length).transpose(-1, -2).contiguous()

    def rotations(self, columns: int, device: torch.device) -> Tensor:
        """Return random rotations, entries N(0, 1/d), in blocks that hold at least `columns` columns.

        Drawn on the CPU from (seed, layer), in training also from the optimiser step; column j is the same
        whatever their number. Kept until another key is asked for.

        Returns:
            [blocks, H, d, R, BLOCK].
        """
        key = (self.seed, self.layer, *([self.step] if self.training else []))
        blocks = -(-columns // BLOCK)
        if self._rotations[0] != (key, device) or len(self._rotations[1]) < blocks:
            generator = torch.Generator("cpu").manual_seed(derive_seed("lsh", *key))
            shape = (blocks, self.num_heads, self.head_size, self.settings.num_hashes, BLOCK)
            # Pinned, so that the copy to a GPU waits for nothing.
            drawn = torch.empty(shape, device="cpu", pin_memory=device.type == "cuda").normal_(generator=generator)
            drawn *= self.head_size**-0.5
            held = self._rotations[1]
            if device.type == "cuda" and held.device == device and held.shape == shape:
                held.copy_(drawn, non_blocking=True)  # where CUDA graphs look for them
            else:
                held = drawn.to(device, non_blocking=True)
            self._rotations = ((key, device), held)
        return self._rotations[1][:blocks]

    def draw_for(self, tokens: int, device: torch.device) -> Tensor:
        """See `Attention.draw_for`."""
        return self.rotations(self._columns(tokens), device)

    def _columns(self, tokens: Any) -> Any:
        """Return half the number of buckets of a sequence of `tokens` real tokens (an integer or a tensor of them)."""
        chunks = (tokens + self.settings.chunk_size - 1) // self.settings.chunk_size
        return (chunks + 1) // 2


@dataclass(frozen=True)
class _Window:
    """Keys that the tokens of a chunk see.

    Args:
        chunk: C.
        reach: tokens of the window on either side of the chunk: C, or 0 where every sequence is one chunk.
        scale: factor of the scores.
        dropout: probability of dropping a weight.
        seed: seed of the draws of dropout.
        slopes: slopes of ALiBi [H], if it is used.
        union: whether the rounds share one softmax.
    """

    chunk: int
    reach: int
    scale: float
    dropout: float
    seed: int
    slopes: Tensor | None
    union: bool

    @property
    def width(self) -> int:
        """W."""
        return self.chunk + 2 * self.reach


@dataclass(frozen=True)
class _Block:
    """Chunks `start` to `stop` of sorted tokens [reach + tokens + reach, d], and their windows."""

    window: _Window
    start: int
    stop: int

    def chunks(self, tokens: Tensor, shift: int = 0) -> Tensor:
        """Return a view of the chunks, or of those `shift` chunks further on: [chunks, C, d]."""
        size, width = self.window.chunk, tokens.shape[-1]
        first = self.window.reach + (self.start + shift) * size
        return tokens.as_strided((self.stop - self.start, size, width), (size * width, width, 1), first * width)

    def windows(self, tokens: Tensor) -> Tensor:
        """Return a view of the windows: [chunks, W, d]."""
        size, width = self.window.chunk, tokens.shape[-1]
        shape = (self.stop - self.start, self.window.width, width)
        return tokens.as_strided(shape, (size * width, width, 1), self.start * size * width)

    def add_from_windows(self, tokens: Tensor, weights: Tensor, rows: Tensor, scale: float = 1.0) -> None:
        """Add to every token the weighted rows of the tokens that see it: the adjoint of attention.

        Args:
            tokens: added to, [reach + tokens + reach, d].
            weights: [chunks, C, W].
            rows: [chunks, C, d].
            scale: a factor.
        """
        size, shift = self.window.chunk, 1 if self.window.reach else 0
        for number, part in enumerate(weights.split(size, dim=-1)):
            self.chunks(tokens, number - shift).baddbmm_(part.transpose(1, 2), rows, alpha=scale)


class _Group:
    """Some sequences of a batch, their rounds sorted and laid one after the other.

    Args:
        window: keys that a token sees.
        sequences: which of the BH sequences, G of them.
        order: tokens in sorted order, [G, R, L].
        real: number of real tokens of each sequence [G].
        buckets: buckets of the sorted tokens [G, R, L], if a token sees its own bucket only.
    """

    def __init__(self, window: _Window, sequences: slice, order: Tensor, real: Tensor, buckets: Tensor | None) -> None:
        self.window = window
        self.sequences = sequences
        self.shape = order.shape
        self.device = order.device
        positions, order = order, order.long()
        number, length = order.shape[0], order.shape[2]
        inverse = torch.empty_like(order).scatter_(-1, order, self._count(length).expand_as(order))
        self.order = (order + self._count(number)[:, None, None] * length).flatten()
        self.inverse = (inverse.flatten(0, 1) + self._count(inverse.shape[:2].numel())[:, None] * length).flatten()
        # Bias of the scores of keys. Real tokens come first in a sequence.
        start = self._count(length // window.chunk)[:, None] * window.chunk
        key = start + self._count(window.width) - window.reach  # [L/C, W]
        absent = (key < 0) | (key >= real[:, None, None])  # [G, L/C, W]
        self.absence = torch.where(absent, ABSENT, 0.0)[:, None].expand(-1, order.shape[1], -1, -1).flatten(0, 2)
        self.buckets = None if buckets is None else self.edged(buckets)
        self.bias = None
        if window.slopes is not None:
            heads = (sequences.start + self._count(number)) % len(window.slopes)
            slopes = window.slopes[heads].repeat_interleave(len(self.absence) // number)  # of every chunk
            self.bias = slopes[:, None, None], self.edged(positions)
        # Where every sorted token is in each of the rounds: its chunk, and its bucket if buckets are kept apart.
        self.places = []
        if window.union:
            numbers = [inverse // window.chunk] + ([] if buckets is None else [buckets.gather(-1, inverse)])
            for turn in range(order.shape[1]):
                of_turn = (each[:, turn, None].expand_as(order).gather(-1, order) for each in numbers)
                self.places.append([self.edged(each) for each in of_turn])
        self.totals = torch.empty(0)

    def sort(self, rows: Tensor) -> Tensor:
        """Return the sequences' `rows` [BH, L, d], sorted, between edges of zeros: [reach + GRL + reach, d]."""
        rows, reach = rows[self.sequences].flatten(0, 1), self.window.reach
        tokens = rows.new_empty(len(self.order) + 2 * reach, rows.shape[-1])
        torch.index_select(rows, 0, self.order, out=tokens[reach : len(tokens) - reach])
        tokens[:reach] = 0
        tokens[len(tokens) - reach :] = 0
        return tokens

    def unsort(self, tokens: Tensor, out: Tensor) -> None:
        """Put `tokens` [reach + GRL + reach, d] back in place in `out` [BH, L, d], as the mean of the rounds."""
        reach = self.window.reach
        rows = tokens[reach : len(tokens) - reach].index_select(0, self.inverse)
        torch.mean(rows.view(*self.shape, -1), dim=1, out=out[self.sequences])

    def rates(self) -> Tensor:
        """Return the weight of each round of a sorted token in one softmax over all rounds, 1 on average [GRL].

        Call it after all blocks.
        """
        shares = self.totals[self.inverse].view(self.shape).softmax(dim=1) * self.shape[1]
        return torch.empty_like(self.totals).index_copy_(0, self.inverse, shares.flatten())

    def score_buffer(self, rows: Tensor) -> Tensor:
        """Return a buffer for the scores of a block, in the type of `rows`: [chunks, C, W].

        Blocks reuse the same memory: new memory has to be mapped, which can take a CPU longer than the computation in
        it.
        """
        window = self.window
        chunks = max(1, _scores(self.device) // (window.chunk * window.width))
        return rows.new_empty(min(chunks, len(self.absence)), window.chunk, window.width)

    def weigh(self, queries: Tensor, generator: torch.Generator) -> Iterator[tuple[_Block, Tensor, Tensor | None]]:
        """Yield blocks of chunks, their attention weights [chunks, C, W], and the factors of dropout, if any.

        The weights of a block are overwritten by those of the next one.

        Args:
            queries: sorted [reach + GRL + reach, d].
            generator: draws the dropout.
        """
        window = self.window
        itself = queries.new_zeros(window.chunk, window.width)
        itself.diagonal(window.reach).fill_(ITSELF)
        buffer, chunks = self.score_buffer(queries), len(self.absence)
        if window.union:
            self.totals = queries.new_empty(len(self.order))
        for start in range(0, chunks, len(buffer)):
            block = _Block(window, start, min(start + len(buffer), chunks))
            scores = buffer[: block.stop - start]
            torch.add(itself, self.absence[start : block.stop, None], out=scores)
            if self.buckets is not None:
                others = block.chunks(self.buckets) != block.windows(self.buckets).transpose(1, 2)
                scores.masked_fill_(others, ABSENT)
            if self.bias is not None:
                slopes, positions = self.bias
                distances = block.chunks(positions) - block.windows(positions).transpose(1, 2)
                scores -= slopes[start : block.stop] * distances.abs_()
            scores.baddbmm_(block.chunks(queries), block.windows(queries).transpose(1, 2), alpha=window.scale)
            if window.union:
                scores -= self._times_seen(block).to(scores).log_()
                self.totals.view(-1, window.chunk)[start : block.stop] = scores.logsumexp(-1)
            weights = torch.softmax(scores, -1, out=scores)
            kept = None
            if window.dropout:
                kept = torch.empty_like(weights).bernoulli_(1 - window.dropout, generator=generator)
                kept /= 1 - window.dropout
            yield block, weights, kept

    def _times_seen(self, block: _Block) -> Tensor:
        """Return in how many rounds tokens of a block see those of their windows, at least 1 [chunks, C, W]."""
        times = torch.zeros((), dtype=torch.int32, device=self.device)
        for chunks, *buckets in self.places:
            seen = (block.chunks(chunks) - block.windows(chunks).transpose(1, 2)).abs_() <= 1
            for each in buckets:
                seen &= block.chunks(each) == block.windows(each).transpose(1, 2)
            times = times + seen
        return times.clamp_(min=1)

    def edged(self, numbers: Tensor) -> Tensor:
        """Return `numbers` of the sorted tokens [G, R, L], between edges of zeros: [reach + GRL + reach, 1]."""
        return functional.pad(numbers.flatten(), (self.window.reach, self.window.reach))[:, None]

    def _count(self, number: int) -> Tensor:
        return torch.arange(number, device=self.device)


class _AttendInWindows(torch.autograd.Function):
    """Attend within the windows of sorted tokens, and average over the rounds, or join them in one softmax.

    Keeps its arguments alone for the backward pass, which sorts and weighs again: neither sorted copies nor weights
    outlive the group of sequences and the block of chunks that they belong to. Joined rounds also keep their rates
    [BH, R, L] and the output: one softmax over all rounds is each round's own, times a rate per token.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, value: Tensor, order: Tensor, real: Tensor, buckets: Tensor | None, window: _Window
    ) -> Tensor:
        """Return the output [B, H, N, d], in float32 at least.

        Args:
            ctx: autograd's.
            query: [B, H, N, d]; serves as key.
            value: [B, H, N, d].
            order: tokens of every round in sorted order [BH, R, L], real ones first.
            real: number of real tokens, [B or 1].
            buckets: of the sorted tokens [BH, R, L], if a token sees its own bucket only.
            window: keys that a token sees.
        """
        ctx.window = window
        queries, values = _sequences(query, order), _sequences(value, order)
        output = torch.empty_like(values)
        rates = output.new_empty(order.shape) if window.union else None
        generator = torch.Generator(query.device).manual_seed(window.seed)
        for group in _groups(window, order, real.expand(len(query)), buckets):
            sorted_queries, sorted_values = group.sort(queries), group.sort(values)
            mixed = torch.empty_like(sorted_values)
            for block, weights, kept in group.weigh(sorted_queries, generator):
                weights = weights if kept is None else weights * kept
                torch.bmm(weights, block.windows(sorted_values), out=block.chunks(mixed))
            if rates is not None:
                rates[group.sequences] = group.rates().view(group.shape)
                mixed *= group.edged(rates[group.sequences])
            group.unsort(mixed, out=output)
        ctx.save_for_backward(query, value, order, real, buckets, rates, None if rates is None else output)
        return output.unflatten(0, query.shape[:2])[:, :, : query.shape[2]]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query and value, [B, H, N, d] each, in float32 at least."""
        query, value, order, real, buckets, rates, output = ctx.saved_tensors
        with torch.autocast(gradient.device.type, enabled=False):
            queries, values, gradients = (_sequences(rows, order) for rows in (query, value, gradient))
            of_queries, of_values = torch.empty_like(queries), torch.empty_like(values)
            generator = torch.Generator(query.device).manual_seed(ctx.window.seed)
            for group in _groups(ctx.window, order, real.expand(len(query)), buckets):
                sorted_queries, sorted_values, sorted_gradients = (
                    group.sort(rows) for rows in (queries, values, gradients)
                )
                of_sorted_queries, of_sorted_values = torch.zeros_like(sorted_queries), torch.zeros_like(sorted_values)
                buffer = group.score_buffer(sorted_queries)
                if rates is not None:
                    rate = group.edged(rates[group.sequences])
                    means = group.sort((gradients * output).sum(-1, keepdim=True))  # of the gradients of the weights
                for block, weights, kept in group.weigh(sorted_queries, generator):
                    of_output = block.chunks(sorted_gradients)
                    of_scores = buffer[: len(weights)]
                    torch.bmm(of_output, block.windows(sorted_values).transpose(1, 2), out=of_scores)
                    if kept is not None:
                        of_scores *= kept
                    if rates is None:
                        torch._softmax_backward_data(of_scores, weights, -1, weights.dtype, grad_input=of_scores)
                    else:
                        weights *= block.chunks(rate)
                        of_scores -= block.chunks(means)
                        of_scores *= weights
                    weights = weights if kept is None else weights * kept
                    block.add_from_windows(of_sorted_values, weights, of_output)
                    block.add_from_windows(of_sorted_queries, of_scores, block.chunks(sorted_queries), ctx.window.scale)
                    block.chunks(of_sorted_queries).baddbmm_(
                        of_scores, block.windows(sorted_queries), alpha=ctx.window.scale
                    )
                group.unsort(of_sorted_queries, out=of_queries)
                group.unsort(of_sorted_values, out=of_values)
            shape = query.shape[:2]
            of_query, of_value = (rows.unflatten(0, shape)[:, :, : query.shape[2]] for rows in (of_queries, of_values))
        return of_query.to(query.dtype), of_value.to(value.dtype), None, None, None, None


def _sequences(rows: Tensor, order: Tensor) -> Tensor:
    """Return `rows` [B, H, N, d] in float32 at least, with zeros up to the length of `order`: [BH, L, d]."""
    precision = torch.promote_types(rows.dtype, torch.float32)
    padding = order.shape[-1] - rows.shape[2]
    rows = rows.to(precision).flatten(0, 1)
    return functional.pad(rows, (0, 0, 0, padding)) if padding else rows


def _groups(window: _Window, order: Tensor, real: Tensor, buckets: Tensor | None) -> Iterator[_Group]:
    """Yield the sequences in groups that fill a block of scores; arguments as those of `_AttendInWindows`."""
    sequences, rounds, length = order.shape
    size = max(1, 4 * _scores(order.device) // (rounds * length * window.width))
    real = real.repeat_interleave(sequences // max(1, len(real)))
    for start in range(0, sequences, size):
        part = slice(start, start + size)
        yield _Group(window, part, order[part], real[part], None if buckets is None else buckets[part])


def _scores(device: torch.device) -> int:
    """Return the number of scores in memory at a time."""
    return SCORES["cpu" if device.type == "cpu" else "gpu"]
