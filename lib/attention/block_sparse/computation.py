"""Attention of blocks of tokens to lists of blocks, by torch's operations, on every device.

A kind selects the pairs of blocks (`Mechanism.parts`); the computation is the same for all. Linear in N in time and
memory where a block's list does not grow with N. The references of the tests have the same, dense.

Tokens are known by their rank: a row's real tokens are counted from 0, padding left out. So padding moves no block.

Shapes: B batch, H heads, N tokens, d head width. A part has T blocks of C queries, which meet K blocks of keys each,
out of M blocks of S keys; W = K S keys in all.
"""

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.attention.contract import ABSENT, Attention, ranks, without_padding

SCORES = {"cpu": 2**19, "gpu": 2**27}
"""Number of scores in memory at a time: on a CPU they fit its cache, on a GPU they keep it busy."""

LOG2E = math.log2(math.e)
"""Scores are logarithms to the base 2: on a CPU `exp2` takes a third of the time of `exp`, less where it gives 0."""

SHORT, DENSE = 256, 512
"""Tokens up to which one call under a dense mask is faster on a CPU: for all, and for queries that see a third, unless
a mechanism has its own number (`BlockSparse.dense_up_to`)."""

NOWHERE = 2**31 - 1
"""A rank beyond any text, for missing tokens."""


@dataclass(frozen=True)
class Part:
    """Pairs of blocks that meet. A pair of tokens may be seen in one part of a mechanism at most.

    Args:
        queries: ranks of every block of queries, [T, C] or, where rows differ, [B, T, C]. No rank stands twice in a
            row. A rank beyond the row's real tokens is absent.
        keys: ranks of every block of keys [M, S], each once at most.
        meets: the blocks of keys that each block of queries meets, [T, K], or [B, H, T, K]; -1 = none.
        sees: whether a query sees a key, by their ranks, which broadcast against each other. None = all that meet.
    """

    queries: Tensor
    keys: Tensor
    meets: Tensor
    sees: Callable[[Tensor, Tensor], Tensor] | None = None

    def seen(self, places: Tensor) -> Tensor:
        """Return which tokens see which, [B or 1, H or 1, N, N].

        Args:
            places: rank of every token [B or 1, N].
        """
        meets = self.meets if self.meets.dim() == 4 else self.meets[None, None]  # [B or 1, H or 1, T, K]
        (_, heads, count, _), number = meets.shape, len(self.keys)
        # One more row and column, for tokens that are in no block.
        pairs = torch.zeros(*meets.shape[:2], count + 1, number + 1, dtype=torch.bool, device=places.device)
        pairs[:, :, :-1].scatter_(-1, meets.where(meets >= 0, number), True)
        pairs[..., -1] = False
        asking, met = _blocks_of(places, self.queries), _blocks_of(places, self.keys)
        batch = max(len(pairs), len(asking))
        met = met[:, None, None].expand(batch, heads, count + 1, -1)
        rows = pairs.expand(batch, -1, -1, -1).gather(-1, met).flatten(0, 2)  # whole rows are copied from it
        first = torch.arange(batch * heads, device=places.device).view(batch, heads, 1) * (count + 1)
        seen = rows.index_select(0, (asking[:, None] + first).flatten()).unflatten(0, (batch, heads, -1))
        if self.sees is not None:
            ranks = places.int()[:, None]
            seen &= self.sees(ranks[..., None], ranks[:, :, None])
        return seen


def _blocks_of(places: Tensor, blocks: Tensor) -> Tensor:
    """Return the block with each of `places` [B or 1, N], one of T `blocks` of ranks [T, C] or [B, T, C]; T = none."""
    blocks = blocks if blocks.dim() == 3 else blocks[None]
    (rows, count, size), length = blocks.shape, places.shape[-1]
    numbers = torch.full((rows, length + 1), count, device=places.device)
    own = torch.arange(count, device=places.device).repeat_interleave(size)
    numbers.scatter_(-1, blocks.flatten(1).clamp(max=length), own.expand(rows, -1))
    numbers[:, -1] = count
    batch = max(rows, len(places))
    return numbers.expand(batch, -1).gather(-1, places.expand(batch, -1))


def in_blocks(ranks: Tensor, size: int) -> Tensor:
    """Return `ranks` [..., n] in blocks [..., blocks, size]; missing ranks in the last block are absent."""
    padded = torch.nn.functional.pad(ranks, (0, -ranks.shape[-1] % size), value=NOWHERE)
    return padded.unflatten(-1, (-1, size))


def neighbours(blocks: int, reach: int, device: torch.device) -> Tensor:
    """Return, for each block in a line, the blocks at most `reach` away [blocks, K].

    All lists are equally long, so that those at the ends hold a few that lie further away.
    """
    number = min(2 * reach + 1, blocks)
    counted = torch.arange(blocks, device=device)
    return (counted - reach).clamp(0, blocks - number)[:, None] + torch.arange(number, device=device)


def by_rank(rows: Tensor, real: Tensor | None) -> Tensor:
    """Return the token of every rank of `rows` [B, H, N, d]: [B, N], padding last, or [1, N] if all are real."""
    if real is None:
        return torch.arange(rows.shape[2], device=rows.device)[None]
    return (~real).to(torch.uint8).argsort(dim=-1, stable=True)


class BlockSparse(Attention):
    """Base of the mechanisms that attend by blocks. A token sees itself.

    Weight dropout acts on the weights of all parts. ALiBi lowers the scores of visible keys.
    """

    needs_clean_padding = False
    dense_up_to: ClassVar[int] = DENSE
    """Most tokens that a CPU computes faster by one call under a dense mask, for queries that see a third of them."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast. Zeros at padding."""
        device = query.device
        if real is not None and not self.pads_queries:  # so nobody has cleaned them
            query = without_padding(query, real)
        dropout = self.dropout if self.training else 0.0
        parts = list(self.parts(query, key, real))
        if device.type == "cpu" and not dropout and self._is_dense_at(query.shape[2]):
            places = ranks(real, query)[0]
            seen = functools.reduce(torch.logical_or, (part.seen(places) for part in parts))
            if real is not None:
                seen = seen & real[:, None, None]  # a row without real tokens sees all alike, and comes out finite
            return self._attend_exactly(query, key, value, None, torch.where(seen, 0.0, ABSENT))
        plan = _Plan(
            parts=parts,
            order=by_rank(query, real),
            lengths=ranks(real, query)[1],
            scale=self.head_size**-0.5 * LOG2E,
            slopes=self.slopes(device),
            dropout=dropout,
            # Dropout's own, global generator decides; the backward pass repeats the draws.
            seed=int(torch.randint(2**62, ())) if dropout else 0,
        )
        with torch.autocast(device.type, enabled=False):
            return _AttendToBlocks.apply(query, key, value, plan)

    def _is_dense_at(self, tokens: int) -> bool:
        return tokens <= SHORT or tokens <= min(self.dense_up_to, 3 * self.settings.keys_per_query(tokens))

    @abstractmethod
    def parts(self, query: Tensor, key: Tensor, real: Tensor | None) -> Iterator[Part]:
        """Yield the parts. Ranks that several of them name should be one tensor, so that they are arranged once.

        Args:
            query: [B, H, N, d], zeros at padding; the tensors of the parts are on its device.
            key: as `query`.
            real: [B, N], true at real tokens; None = all real.
        """


@dataclass(frozen=True)
class _Plan:
    """The plan of a computation.

    Args:
        parts: which blocks meet.
        order: token by rank, [B or 1, N]; padding comes last.
        lengths: real tokens, [B or 1].
        scale: factor of the scores.
        slopes: slopes of ALiBi [H].
        dropout: probability of dropping a weight.
        seed: seed of the dropout.
    """

    parts: Sequence[Part]
    order: Tensor
    lengths: Tensor
    scale: float
    slopes: Tensor | None
    dropout: float
    seed: int


class _Layout:
    """Tokens in blocks, by their ranks, and the tensors in this layout.

    Args:
        ranks: [B, blocks, size] or [blocks, size].
        plan: see `_Plan`.
        rows: tensors for this layout, by name: [B, H, N, d], or [B * H * N + 1, 1], whose last row is for what is
            absent.
    """

    def __init__(self, ranks: Tensor, plan: _Plan, rows: Mapping[str, Tensor]) -> None:
        self.rows = rows
        self.laid: dict[str, Tensor] = {}
        self.sums: dict[str, Tensor] = {}
        """Running sums over blocks [B, H, blocks, size, d], by name."""
        batch, heads, length = rows["query"].shape[:3]
        there = ranks < plan.lengths[:, None, None]  # [B or 1, blocks, size]
        self.shape = (batch, heads, *there.shape[1:])
        self.ranks = torch.where(there, ranks, length).int()  # one number for all that is absent
        some = ranks.clamp(max=length - 1).expand(there.shape).flatten(1)
        self.columns = plan.order.expand(len(there), -1).gather(1, some).view(there.shape)
        start = torch.arange(batch * heads, device=ranks.device).view(batch, heads, 1, 1) * length
        index = self.columns[:, None] + start
        self.some = index.flatten()
        """Row of every place; an arbitrary one at empty places."""
        self.index = index.masked_fill(~there[:, None], batch * heads * length).flatten()
        """Row of every place; the row after the last at empty places."""

    def take(self, name: str) -> Tensor:
        """Return the rows of a name in blocks [B, H, blocks, size, d], in float32 at least."""
        if name not in self.laid:
            rows = self.rows[name]
            flat, index = (rows, self.index) if rows.dim() == 2 else (rows.flatten(0, 2), self.some)
            taken = flat.index_select(0, index)
            taken = taken.to(torch.promote_types(rows.dtype, torch.float32))
            self.laid[name] = taken.view(*self.shape, rows.shape[-1])
        return self.laid[name]

    def sum(self, name: str, width: int, start: float = 0.0) -> Tensor:
        """Return the results so far for the rows of a name [B, H, blocks, size, width]."""
        if name not in self.sums:
            self.sums[name] = self.take("query").new_full((*self.shape, width), start)
        return self.sums[name]


@dataclass
class _Group:
    """Tiles that are computed at a time: some rows, heads and blocks of queries of a part.

    Args:
        queries: layout of the queries.
        keys: layout of the keys.
        place: rows, heads and blocks of queries.
        chosen: blocks of keys that each tile meets, counted over all rows and heads, [tiles * K].
        scores: [tiles, C, W].
        met_keys: [tiles, W, d].
        kept: factors of dropout, as `scores`.
    """

    queries: _Layout
    keys: _Layout
    place: tuple[slice, slice, slice]
    chosen: Tensor
    scores: Tensor
    met_keys: Tensor = field(init=False)
    kept: Tensor | None = None

    def asks(self, name: str) -> Tensor:
        """Return the rows of a name at the queries [tiles, C, d]."""
        return self.queries.take(name)[self.place].flatten(0, 2)

    def meets(self, name: str) -> Tensor:
        """Return the rows of a name at the keys that are met [tiles, W, d]."""
        blocks = self.keys.take(name)
        rows = blocks.view(-1, blocks.shape[-2:].numel()).index_select(0, self.chosen)
        return rows.view(len(self.scores), -1, blocks.shape[-1])

    def add_to_asking(self, name: str, rows: Tensor) -> None:
        """Add `rows` [tiles, C, d] to the sum of a name at the queries."""
        to = self.queries.sum(name, rows.shape[-1])[self.place]
        to += rows.view_as(to)

    def add_to_met(self, name: str, rows: Tensor) -> None:
        """Add `rows` [tiles, W, d] to the sum of a name at the keys that are met."""
        to = self.keys.sum(name, rows.shape[-1])
        to, rows = (each.view(-1, to.shape[-2:].numel()) for each in (to, rows))
        if rows.is_cuda:  # where `index_add_` sums up in any order
            to.index_put_((self.chosen,), rows, accumulate=True)
        else:
            to.index_add_(0, self.chosen, rows)


class _Layouts(dict[int, _Layout]):
    """The layouts of all parts, made once for all parts that name the same ranks."""

    def __init__(self, plan: _Plan, **rows: Tensor) -> None:
        super().__init__()
        self.plan = plan
        for part in plan.parts:
            for places in (part.queries, part.keys):
                if id(places) not in self:
                    self[id(places)] = _Layout(places, plan, rows)

    def groups(self) -> Iterator[_Group]:
        """Yield the tiles of all parts in groups. The scores of a group are overwritten by those of the next one."""
        plan = self.plan
        generator = torch.Generator(plan.order.device).manual_seed(plan.seed)
        for part in plan.parts:
            queries, keys = self[id(part.queries)], self[id(part.keys)]
            for group in _groups(part, plan, queries, keys):
                group.met_keys = group.meets("key")
                scores, asking = group.scores, group.asks("query")
                torch.baddbmm(scores, asking, group.met_keys.transpose(1, 2), alpha=plan.scale, out=scores)
                if plan.dropout:
                    group.kept = torch.empty_like(scores).bernoulli_(1 - plan.dropout, generator=generator)
                    group.kept /= 1 - plan.dropout
                yield group


def _groups(part: Part, plan: _Plan, queries: _Layout, keys: _Layout) -> Iterator[_Group]:
    """Yield the tiles of a part in groups, whose scores contain only what is added to products."""
    (batch, heads, tiles, size), device = queries.shape, part.keys.device
    meets = part.meets if part.meets.dim() == 4 else part.meets[None, None]  # [B or 1, H or 1, T, K]
    width = meets.shape[-1] * part.keys.shape[-1]
    at_a_time = max(1, SCORES["cpu" if device.type == "cpu" else "gpu"] // (size * width))
    of_heads = min(heads, at_a_time)
    of_tiles = min(tiles, at_a_time // of_heads)
    of_rows = min(batch, at_a_time // (of_heads * of_tiles))
    first = torch.arange(batch * heads, device=device).view(batch, heads, 1, 1) * len(part.keys)
    # New memory has to be mapped, which can take a CPU longer than the computation in it.
    buffer = queries.take("query").new_empty(of_rows * of_heads * of_tiles * size * width)
    for rows, blocks in itertools.product(_steps(batch, of_rows), _steps(tiles, of_tiles)):
        met = _some(meets, rows)[:, :, blocks]
        seen = _of_keys(keys.ranks, rows, met) < plan.order.shape[-1]
        seen &= (met >= 0).repeat_interleave(part.keys.shape[-1], dim=-1)[:, :, :, None]
        if part.sees is not None:
            i = _some(queries.ranks, rows)[:, None, blocks, :, None]
            seen = seen & part.sees(i, _of_keys(keys.ranks, rows, met))
        added = torch.where(seen, 0.0, ABSENT)  # [rows or 1, H or 1, blocks, C or 1, W]
        distances = None
        if plan.slopes is not None:
            columns = _some(queries.columns, rows)[:, None, blocks, :, None]
            distances = (columns - _of_keys(keys.columns, rows, met)).abs_()
        for some_heads in _steps(heads, of_heads):
            place = rows, some_heads, blocks
            shape = [*(each.stop - each.start for each in place), size, width]
            scores = buffer[: math.prod(shape)].view(shape)
            scores.copy_(_some(added, some_heads, 1))
            if distances is not None and plan.slopes is not None:
                slopes = plan.slopes[some_heads, None, None, None].to(scores.dtype) * LOG2E
                scores -= slopes * _some(distances, some_heads, 1)
            chosen = first[rows, some_heads] + _some(met, some_heads, 1).clamp(min=0)
            yield _Group(queries, keys, place, chosen.flatten(), scores.flatten(0, 2))


def _of_keys(numbers: Tensor, rows: slice, met: Tensor) -> Tensor:
    """Return the `numbers` of keys [B or 1, M, S] that are met [rows or 1, H or 1, blocks, K]: [.., 1, W]."""
    numbers = _some(numbers, rows)
    row = torch.arange(len(numbers), device=met.device)[:, None, None, None]
    return numbers[row, met.clamp(min=0)].flatten(-2)[:, :, :, None]


def _steps(number: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, number)) for start in range(0, number, size))


def _some(tensor: Tensor, chosen: slice, dimension: int = 0) -> Tensor:
    """Return a part of `tensor` along a dimension, all of it if it has one entry for whatever is chosen."""
    if tensor.shape[dimension] == 1:
        return tensor
    return tensor.narrow(dimension, chosen.start, chosen.stop - chosen.start)


def _join(mean: Tensor, logarithm: Tensor, place: Any, output: Tensor, normaliser: Tensor) -> None:
    """Join means of values [.., d], and the logarithms of their normalisers [.., 1], to those before, at a place."""
    both = torch.logaddexp2(normaliser[place], logarithm)
    output[place] = torch.lerp(output[place], mean, (logarithm - both).exp2_())
    normaliser[place] = both


class _AttendToBlocks(torch.autograd.Function):
    """Attend to the blocks of all parts by one softmax.

    Keeps its arguments, its output and the logarithm of each query's normaliser for the backward pass, which computes
    the weights again: neither blocks nor weights outlive the group of tiles that they belong to.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: _Plan) -> Tensor:
        """Return the output [B, H, N, d], in float32 at least."""
        tokens, width = query.shape[:3].numel(), value.shape[-1]
        layouts = _Layouts(plan, query=query, key=key, value=value)
        for group in layouts.groups():
            weights = group.scores
            largest = weights.amax(-1, keepdim=True)
            weights.sub_(largest).exp2_()
            total = weights.sum(-1, keepdim=True)
            if group.kept is not None:
                weights *= group.kept
            mean = torch.bmm(weights, group.meets("value")).div_(total)
            output, normaliser = group.queries.sum("output", width), group.queries.sum("normaliser", 1, ABSENT)
            shape = output[group.place].shape
            logarithm = total.log2_().add_(largest).view(*shape[:-1], 1)
            _join(mean.view(shape), logarithm, group.place, output, normaliser)
        output, normaliser = (
            torch.full((tokens + 1, size), start, dtype=output.dtype, device=output.device)
            for size, start in ((width, 0.0), (1, ABSENT))
        )
        for number, layout in enumerate(layout for layout in layouts.values() if layout.sums):
            mean, logarithm = (layout.sums[name].flatten(0, -2) for name in ("output", "normaliser"))
            if number:
                _join(mean, logarithm, layout.index, output, normaliser)
            else:
                output[layout.index], normaliser[layout.index] = mean, logarithm
        normaliser[-1] = -ABSENT  # so that whatever is absent weighs nothing in the backward pass
        output = output[:-1].view_as(value)
        ctx.save_for_backward(query, key, value, output, normaliser)
        ctx.plan = plan
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value, [B, H, N, d] each."""
        query, key, value, output, normaliser = ctx.saved_tensors
        shared = torch.nn.functional.pad((gradient * output).sum(-1).flatten(), (0, 1))[:, None]
        given = {"query": query, "key": key, "value": value}
        with torch.autocast(query.device.type, enabled=False):
            layouts = _Layouts(ctx.plan, **given, gradient=gradient, normaliser=normaliser, shared=shared)
            for group in layouts.groups():
                of_output = group.asks("gradient")
                weights = group.scores.sub_(group.asks("normaliser")).exp2_()
                of_scores = torch.bmm(of_output, group.meets("value").transpose(1, 2))
                dropped = weights
                if group.kept is not None:
                    of_scores *= group.kept
                    dropped = weights * group.kept
                group.add_to_met("value", torch.bmm(dropped.transpose(1, 2), of_output))
                of_scores.sub_(group.asks("shared")).mul_(weights)
                group.add_to_met("key", torch.bmm(of_scores.transpose(1, 2), group.asks("query")))
                group.add_to_asking("query", torch.bmm(of_scores, group.met_keys))
            gradients = []
            for name, rows in given.items():
                found = output.new_zeros(len(normaliser), rows.shape[-1])
                there = [layout for layout in layouts.values() if name in layout.sums]
                for number, layout in enumerate(there):
                    added = layout.sums[name].view(-1, rows.shape[-1])
                    found[layout.index] = found[layout.index] + added if number else added
                scale = 1.0 if name == "value" else ctx.plan.scale / LOG2E
                gradients.append(found[:-1].mul_(scale).view(rows.shape).to(rows.dtype))
        return *gradients, None
