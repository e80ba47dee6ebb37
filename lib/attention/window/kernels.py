"""Attention within a window by Triton kernels, which a GPU runs in place of the torch operations of `mechanism.py`.

The tests have the same computation in a readable form. A program takes a tile of tokens, by their ranks, and visits
only the tiles that the window reaches; scores exist in registers only. The first `global_tokens` tokens, the few, are a
tile that all others meet. For the few themselves, programs take a part of the sequence each, and their results are
joined. A pair of tokens is computed in one place: with a query of the few, with a key of the few, or in the window.
Every sum has a fixed order, so results repeat bit by bit, and nothing asks the device for a number.

Without a mask, ranks are columns, and rows are loaded one after the other. With a mask, they are loaded through the
token of each rank, wherever padding stands: only the device knows where that is.

Shapes: B batch, H heads, N tokens, d head width, G global tokens. Exponents and logarithms have the base 2.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.attention.kernels import Launch, launch, size_class
from lib.attention.tiles import (
    count_of,
    load_rows,
    padded_width,
    product,
    rows_apart,
    slope_of,
    start_of,
    tile_of,
    tiles_of,
)

NOWHERE = tl.constexpr(2**31 - 1)
"""Rank of absent tokens, beyond every window."""

FARTHEST = tl.constexpr(2**30)
"""Greatest reach of a window: from one end of every text to the other, and not to `NOWHERE`."""

LOWEST = tl.constexpr(-1e30)
"""Maximum over nothing: far below all scores, and finite."""

LN2 = tl.constexpr(0.6931471805599453)
"""Factor of gradients, since scores have the base 2."""

PART = 512
"""Tokens of a sequence that a program takes for the few. A constant, so that no sum depends on the GPU."""

LAUNCHES = {
    "half": {
        "forward": Launch(64, 64, 4, 3),
        "query gradients": Launch(64, 64, 4, 3),
        "key gradients": Launch(64, 32, 4, 3),
        "few": Launch(64, 32, 4, 3),
    },
    "half wide": {
        "forward": Launch(64, 32, 4, 2),
        "query gradients": Launch(64, 32, 8, 2),
        "key gradients": Launch(64, 32, 8, 2),
        "few": Launch(32, 32, 8, 2),
    },
    "single": {
        "forward": Launch(32, 32, 8, 2),
        "query gradients": Launch(32, 32, 8, 2),
        "key gradients": Launch(32, 32, 8, 2),
        "few": Launch(16, 32, 8, 2),
    },
    "single wide": {
        "forward": Launch(16, 16, 4, 2),
        "query gradients": Launch(16, 16, 4, 2),
        "key gradients": Launch(16, 16, 4, 2),
        "few": Launch(16, 16, 4, 2),
    },
}
"""How each kernel is launched, by `size_class`: rows are the tokens that a program keeps, columns those it visits at a
time. Registers suffice so, also with ALiBi on Ampere, where key gradients of 64 columns spill 3 KB a thread. See the
same of LSH."""

CHANGING = ["length", "parts"]
"""Arguments whose values do not decide how a kernel is compiled."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    real: Tensor | None,
    slopes: Tensor | None,
    *,
    reach: int,
    global_tokens: int,
) -> Tensor:
    """Return attention to the tokens nearby, and to and from the global tokens.

    Args:
        query: [B, H, N, d]. Products are in its type, sums and softmax in float32.
        key: as `query`.
        value: as `query`.
        real: [B, N], true at real tokens; None = all real.
        slopes: slopes of ALiBi [H], if it is used.
        reach: tokens of the window on either side of a token.
        global_tokens: G.

    Returns:
        [B, H, N, d] in the type of `value`, zeros at padding.
    """
    order, counts = (None, None) if real is None else order_of(real.contiguous())
    window = _Window(min(reach, FARTHEST.value), min(global_tokens, query.shape[2]), slopes)
    return _Attend.apply(query, key, value, order, counts, window)


def order_of(real: Tensor) -> tuple[Tensor, Tensor]:
    """Return the token of every rank [B, N], padding last, and the number of real tokens [B], as 32-bit integers.

    Args:
        real: [B, N], true at real tokens.
    """
    batch, length = real.shape
    order = torch.empty(batch, length, dtype=torch.int32, device=real.device)
    counts = torch.empty(batch, dtype=torch.int32, device=real.device)
    launch(_order, batch, real, order, counts, length, TILE=2048, num_warps=8)
    return order, counts


class _Window(NamedTuple):
    """Pairs that are seen; as the arguments of `attend`."""

    reach: int
    global_tokens: int
    slopes: Tensor | None


class _Attend(torch.autograd.Function):
    """Keeps its arguments, the output and the log-sum-exp of every query's scores, as exact attention does."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        order: Tensor | None,
        counts: Tensor | None,
        window: _Window,
    ) -> Tensor:
        """Return the output [B, H, N, d]."""
        query, key, value = (rows_apart(rows) for rows in (query, key, value))
        output = torch.empty_like(value)
        normalisers = query.new_empty(query.shape[:3], dtype=torch.float32)
        inputs = (query, key, value, order, counts, window.slopes)
        strides = _strides(query, key, value)
        plan = _plan("forward", query, window)
        plan.launch(_forward, *inputs, normalisers, output, *strides, *_strides(output))
        if window.global_tokens:
            plan = _plan("few", query, window)
            logarithms, parts = plan.buffers(query, 1), plan.buffers(query, query.shape[3])
            plan.launch(_forward_of_few, *inputs, logarithms, parts, *strides)
            plan.join(parts, logarithms, normalisers, order, counts, output)
        ctx.save_for_backward(query, key, value, order, counts, output, normalisers)
        ctx.window = window
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value [B, H, N, d]."""
        query, key, value, order, counts, output, normalisers = ctx.saved_tensors
        window, gradient = ctx.window, rows_apart(gradient)
        of_query, of_key, of_value = (torch.empty_like(rows) for rows in (query, key, value))
        means = torch.empty_like(normalisers)
        inputs = (query, key, value, order, counts, window.slopes, gradient, normalisers, means)
        strides = _strides(query, key, value, gradient)
        plan = _plan("query gradients", query, window)
        plan.launch(_query_gradients, *inputs, output, of_query, *strides, *_strides(output, of_query))
        plan = _plan("key gradients", query, window)
        plan.launch(_key_gradients, *inputs, of_key, of_value, *strides, *_strides(of_key, of_value))
        if window.global_tokens:
            plan = _plan("few", query, window)
            parts = [plan.buffers(query, query.shape[3]) for _ in range(3)]
            plan.launch(_backward_of_few, *inputs, *parts, *strides)
            for part, target in zip(parts, (of_query, of_key, of_value), strict=True):
                plan.join(part, None, None, order, counts, target)
        return of_query, of_key, of_value, None, None, None


class _Plan(NamedTuple):
    """The division of a kernel's work into programs, which depends only on shapes and types.

    Args:
        programs: their number.
        sizes: H and N.
        constants: values that a kernel is compiled for.
    """

    programs: int
    sizes: tuple[int, int]
    constants: dict[str, Any]

    def launch(self, kernel: Any, *arguments: Any) -> None:
        """Start the programs of a kernel, whose last arguments are the sizes."""
        launch(kernel, self.programs, *arguments, *self.sizes, **self.constants)

    def buffers(self, query: Tensor, width: int) -> Tensor:
        """Return memory for the results of every part of a sequence, [parts, BH, G, width] in float32."""
        batch, heads, length, _ = query.shape
        shape = (triton.cdiv(length, PART), batch * heads, self.constants["GLOBAL"], width)
        return query.new_empty(shape, dtype=torch.float32)

    def join(
        self,
        rows: Tensor,
        logarithms: Tensor | None,
        normalisers: Tensor | None,
        order: Tensor | None,
        counts: Tensor | None,
        target: Tensor,
    ) -> None:
        """Write the rows of the global tokens into `target` [B, H, N, d], from those of the parts; see `_join`."""
        constants = {name: self.constants[name] for name in ("GLOBAL", "WIDTH", "PADDED", "FEW")}
        programs = rows.shape[1] * triton.cdiv(constants["GLOBAL"], constants["FEW"])
        tensors = (rows, logarithms, normalisers, order, counts, target)
        launch(_join, programs, *tensors, *_strides(target), len(rows), *self.sizes, **constants, num_warps=4)


def _plan(kernel: str, query: Tensor, window: _Window) -> _Plan:
    """Return the plan of a kernel for `query` [B, H, N, d]."""
    batch, heads, length, width = query.shape
    how = LAUNCHES[size_class(query)][kernel]
    few = max(16, triton.next_power_of_2(window.global_tokens))
    constants = {
        "SCALE": math.log2(math.e) / math.sqrt(width),
        "GLOBAL": window.global_tokens,
        "WIDTH": width,
        "PADDED": padded_width(width),
        "COLUMNS": how.columns,
        "num_warps": how.warps,
        "num_stages": how.stages,
    }
    if kernel == "few":
        few = min(few, how.rows)
        programs = batch * heads * triton.cdiv(window.global_tokens, few) * triton.cdiv(length, PART)
        return _Plan(programs, (heads, length), constants | {"FEW": few, "PART": PART})
    constants |= {"FEW": min(few, how.columns), "ROWS": how.rows, "REACH": window.reach}
    return _Plan(tiles_of(query, how), (heads, length), constants)


def _strides(*tensors: Tensor) -> list[tuple[int, ...]]:
    """Return the strides of rows, heads and tokens of each tensor [B, H, N, d]."""
    return [tensor.stride()[:3] for tensor in tensors]


@triton.jit(do_not_specialize=["length"])
def _order(real, order, counts, length, TILE: tl.constexpr):
    """Write the token of every rank of a row, padding from the end backwards, and the number of its real tokens."""
    row = tl.program_id(0).to(tl.int64) * length
    before = tl.zeros([], tl.int32)
    for start in range(0, length, TILE):
        tokens = start + tl.arange(0, TILE)
        shown = tl.load(real + row + tokens, mask=tokens < length, other=0).to(tl.int32)
        through = before + tl.cumsum(shown, 0)  # real tokens up to this one
        ranks = tl.where(shown != 0, through - 1, length - 1 - tokens + through)
        tl.store(order + row + ranks, tokens, mask=tokens < length)
        before += tl.sum(shown, 0)
    tl.store(counts + tl.program_id(0), before)


@triton.jit(do_not_specialize=CHANGING)
def _forward(
    query,
    key,
    value,
    order,
    counts,
    slopes,
    normalisers,
    output,
    query_strides,
    key_strides,
    value_strides,
    output_strides,
    heads,
    length,
    SCALE: tl.constexpr,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    ROWS: tl.constexpr,
    REACH: tl.constexpr,
):
    """Write the output of a tile of tokens that are not global, and the log-sum-exp of their scores."""
    sequence, first = tile_of(length, ROWS)
    real = count_of(counts, sequence, heads, length)
    number = tl.minimum(GLOBAL, real)
    slope = slope_of(slopes, sequence, heads) / SCALE
    BIASED: tl.constexpr = slopes is not None
    line = (sequence // heads).to(tl.int64) * length
    ranks = first + tl.arange(0, ROWS)
    tokens = _tokens(order, line, ranks, length)
    place = start_of(query, query_strides, sequence, heads)
    queries = load_rows(place, query_strides[2], tokens, ranks < real, WIDTH, PADDED)
    starts = start_of(key, key_strides, sequence, heads), start_of(value, value_strides, sequence, heads)
    strides = key_strides[2], value_strides[2]
    own = queries, first, ranks, tokens
    highest = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, PADDED], tl.float32)
    low, high = _reached(first, number, real, REACH, ROWS)
    for start in range(low, high, COLUMNS):
        scores, _, values = _meet(
            own, starts, strides, order, line, start, high, slope, BIASED, REACH, WIDTH, PADDED, COLUMNS
        )
        highest, total, mixed = _take(scores, values, highest, total, mixed, SCALE)
    if GLOBAL:
        for start in range(0, tl.where(low < high, number, 0), FEW):
            scores, _, values = _meet(
                own, starts, strides, order, line, start, number, slope, BIASED, FARTHEST, WIDTH, PADDED, FEW
            )
            highest, total, mixed = _take(scores, values, highest, total, mixed, SCALE)
    total = tl.maximum(total, 1.0)  # as it is with any key: the one of the highest score has the weight 1
    mixed = tl.where((ranks < real)[:, None], mixed / total[:, None], 0.0)
    mine = (ranks >= number) & (ranks < length)
    _store_rows(output, output_strides, sequence, heads, tokens, mine, mixed, WIDTH, PADDED)
    normaliser = tl.where(ranks < real, highest * SCALE + tl.log2(total), float("inf"))  # padding sees with weight 0
    tl.store(normalisers + sequence.to(tl.int64) * length + ranks, normaliser, mask=mine)


@triton.jit(do_not_specialize=CHANGING)
def _query_gradients(
    query,
    key,
    value,
    order,
    counts,
    slopes,
    gradient,
    normalisers,
    means,
    output,
    of_query,
    query_strides,
    key_strides,
    value_strides,
    gradient_strides,
    output_strides,
    of_query_strides,
    heads,
    length,
    SCALE: tl.constexpr,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    ROWS: tl.constexpr,
    REACH: tl.constexpr,
):
    """Write the gradients of a tile of queries that are not global, and the mean gradient of all queries' weights.

    The mean is the product of output and gradient, since the output is the mean of the values.
    """
    sequence, first = tile_of(length, ROWS)
    real = count_of(counts, sequence, heads, length)
    number = tl.minimum(GLOBAL, real)
    slope = slope_of(slopes, sequence, heads) / SCALE
    BIASED: tl.constexpr = slopes is not None
    line = (sequence // heads).to(tl.int64) * length
    ranks = first + tl.arange(0, ROWS)
    tokens = _tokens(order, line, ranks, length)
    shown = ranks < real
    place = start_of(query, query_strides, sequence, heads)
    queries = load_rows(place, query_strides[2], tokens, shown, WIDTH, PADDED)
    place = start_of(gradient, gradient_strides, sequence, heads)
    gradients = load_rows(place, gradient_strides[2], tokens, shown, WIDTH, PADDED)
    place = start_of(output, output_strides, sequence, heads)
    outputs = load_rows(place, output_strides[2], tokens, shown, WIDTH, PADDED)
    mean = tl.sum(outputs.to(tl.float32) * gradients.to(tl.float32), 1)
    places = sequence.to(tl.int64) * length + ranks
    tl.store(means + places, mean, mask=ranks < length)
    normaliser = tl.load(normalisers + places, mask=shown, other=float("inf"))
    starts = start_of(key, key_strides, sequence, heads), start_of(value, value_strides, sequence, heads)
    strides = key_strides[2], value_strides[2]
    own = queries, first, ranks, tokens
    of_queries = tl.zeros([ROWS, PADDED], tl.float32)
    low, high = _reached(first, number, real, REACH, ROWS)
    for start in range(low, high, COLUMNS):
        scores, keys, values = _meet(
            own, starts, strides, order, line, start, high, slope, BIASED, REACH, WIDTH, PADDED, COLUMNS
        )
        of_queries = _add_as_queries(scores, keys, values, gradients, normaliser, mean, of_queries, SCALE)
    if GLOBAL:
        for start in range(0, tl.where(low < high, number, 0), FEW):
            scores, keys, values = _meet(
                own, starts, strides, order, line, start, number, slope, BIASED, FARTHEST, WIDTH, PADDED, FEW
            )
            of_queries = _add_as_queries(scores, keys, values, gradients, normaliser, mean, of_queries, SCALE)
    mine = (ranks >= number) & (ranks < length)
    of_queries *= SCALE * LN2
    _store_rows(of_query, of_query_strides, sequence, heads, tokens, mine, of_queries, WIDTH, PADDED)


@triton.jit(do_not_specialize=CHANGING)
def _key_gradients(
    query,
    key,
    value,
    order,
    counts,
    slopes,
    gradient,
    normalisers,
    means,
    of_key,
    of_value,
    query_strides,
    key_strides,
    value_strides,
    gradient_strides,
    of_key_strides,
    of_value_strides,
    heads,
    length,
    SCALE: tl.constexpr,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    ROWS: tl.constexpr,
    REACH: tl.constexpr,
):
    """Write the gradients of a tile of keys that are not global, and of their values."""
    sequence, first = tile_of(length, ROWS)
    real = count_of(counts, sequence, heads, length)
    number = tl.minimum(GLOBAL, real)
    slope = slope_of(slopes, sequence, heads) / SCALE
    BIASED: tl.constexpr = slopes is not None
    line = (sequence // heads).to(tl.int64) * length
    ranks = first + tl.arange(0, ROWS)
    tokens = _tokens(order, line, ranks, length)
    shown = ranks < real
    place = start_of(key, key_strides, sequence, heads)
    keys = load_rows(place, key_strides[2], tokens, shown, WIDTH, PADDED)
    place = start_of(value, value_strides, sequence, heads)
    values = load_rows(place, value_strides[2], tokens, shown, WIDTH, PADDED)
    starts = start_of(query, query_strides, sequence, heads), start_of(gradient, gradient_strides, sequence, heads)
    strides = query_strides[2], gradient_strides[2]
    normalisers += sequence.to(tl.int64) * length
    means += sequence.to(tl.int64) * length
    own = keys, first, ranks, tokens
    of_keys = tl.zeros([ROWS, PADDED], tl.float32)
    of_values = tl.zeros([ROWS, PADDED], tl.float32)
    low, high = _reached(first, number, real, REACH, ROWS)
    for start in range(low, high, COLUMNS):
        asking = start + tl.arange(0, COLUMNS)
        normaliser = tl.load(normalisers + asking, mask=asking < high, other=float("inf"))
        mean = tl.load(means + asking, mask=asking < high, other=0.0)
        scores, queries, gradients = _meet(
            own, starts, strides, order, line, start, high, slope, BIASED, REACH, WIDTH, PADDED, COLUMNS
        )
        of_keys, of_values = _add_as_keys(
            scores, queries, gradients, values, normaliser, mean, of_keys, of_values, SCALE
        )
    if GLOBAL:
        for start in range(0, tl.where(low < high, number, 0), FEW):
            asking = start + tl.arange(0, FEW)
            normaliser = tl.load(normalisers + asking, mask=asking < number, other=float("inf"))
            mean = tl.load(means + asking, mask=asking < number, other=0.0)
            scores, queries, gradients = _meet(
                own, starts, strides, order, line, start, number, slope, BIASED, FARTHEST, WIDTH, PADDED, FEW
            )
            of_keys, of_values = _add_as_keys(
                scores, queries, gradients, values, normaliser, mean, of_keys, of_values, SCALE
            )
    mine = (ranks >= number) & (ranks < length)
    of_keys = tl.where(shown[:, None], of_keys * (SCALE * LN2), 0.0)
    of_values = tl.where(shown[:, None], of_values, 0.0)
    _store_rows(of_key, of_key_strides, sequence, heads, tokens, mine, of_keys, WIDTH, PADDED)
    _store_rows(of_value, of_value_strides, sequence, heads, tokens, mine, of_values, WIDTH, PADDED)


@triton.jit(do_not_specialize=CHANGING)
def _forward_of_few(
    query,
    key,
    value,
    order,
    counts,
    slopes,
    logarithms,
    outputs,
    query_strides,
    key_strides,
    value_strides,
    heads,
    length,
    SCALE: tl.constexpr,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    PART: tl.constexpr,
):
    """Write the output of a tile of global tokens over a part of the keys, and the log-sum-exp of their scores."""
    sequence, part, first, line_of_part = _part_of(length, GLOBAL, FEW, PART)
    real = count_of(counts, sequence, heads, length)
    number = tl.minimum(GLOBAL, real)
    slope = slope_of(slopes, sequence, heads) / SCALE
    BIASED: tl.constexpr = slopes is not None
    line = (sequence // heads).to(tl.int64) * length
    ranks = first + tl.arange(0, FEW)
    tokens = _tokens(order, line, ranks, number)
    place = start_of(query, query_strides, sequence, heads)
    queries = load_rows(place, query_strides[2], tokens, ranks < number, WIDTH, PADDED)
    starts = start_of(key, key_strides, sequence, heads), start_of(value, value_strides, sequence, heads)
    strides = key_strides[2], value_strides[2]
    own = queries, first, ranks, tokens
    highest = tl.full([FEW], LOWEST, tl.float32)
    total = tl.zeros([FEW], tl.float32)
    mixed = tl.zeros([FEW, PADDED], tl.float32)
    high = tl.minimum(part * PART + PART, real)
    for start in range(part * PART, tl.where(first < number, high, 0), COLUMNS):
        scores, _, values = _meet(
            own, starts, strides, order, line, start, high, slope, BIASED, FARTHEST, WIDTH, PADDED, COLUMNS
        )
        highest, total, mixed = _take(scores, values, highest, total, mixed, SCALE)
    total = tl.maximum(total, 1.0)
    lines = line_of_part + ranks
    tl.store(logarithms + lines, highest * SCALE + tl.log2(total), mask=ranks < GLOBAL)
    columns = tl.arange(0, PADDED)
    inside = (ranks < GLOBAL)[:, None] & (columns < WIDTH)[None, :]
    tl.store(outputs + lines[:, None] * WIDTH + columns[None, :], mixed / total[:, None], mask=inside)


@triton.jit(do_not_specialize=CHANGING)
def _backward_of_few(
    query,
    key,
    value,
    order,
    counts,
    slopes,
    gradient,
    normalisers,
    means,
    of_queries_parts,
    of_keys_parts,
    of_values_parts,
    query_strides,
    key_strides,
    value_strides,
    gradient_strides,
    heads,
    length,
    SCALE: tl.constexpr,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
    FEW: tl.constexpr,
    PART: tl.constexpr,
):
    """Write gradients of a tile of global tokens, as queries over a part of the keys, and as keys of its queries."""
    sequence, part, first, line_of_part = _part_of(length, GLOBAL, FEW, PART)
    real = count_of(counts, sequence, heads, length)
    number = tl.minimum(GLOBAL, real)
    slope = slope_of(slopes, sequence, heads) / SCALE
    BIASED: tl.constexpr = slopes is not None
    line = (sequence // heads).to(tl.int64) * length
    query = start_of(query, query_strides, sequence, heads)
    key = start_of(key, key_strides, sequence, heads)
    value = start_of(value, value_strides, sequence, heads)
    gradient = start_of(gradient, gradient_strides, sequence, heads)
    normalisers += sequence.to(tl.int64) * length
    means += sequence.to(tl.int64) * length
    ranks = first + tl.arange(0, FEW)
    shown = ranks < number
    tokens = _tokens(order, line, ranks, number)
    queries = load_rows(query, query_strides[2], tokens, shown, WIDTH, PADDED)
    keys = load_rows(key, key_strides[2], tokens, shown, WIDTH, PADDED)
    values = load_rows(value, value_strides[2], tokens, shown, WIDTH, PADDED)
    gradients = load_rows(gradient, gradient_strides[2], tokens, shown, WIDTH, PADDED)
    normaliser = tl.load(normalisers + ranks, mask=shown, other=float("inf"))
    mean = tl.load(means + ranks, mask=shown, other=0.0)
    as_queries, as_keys = (queries, first, ranks, tokens), (keys, first, ranks, tokens)
    of_queries = tl.zeros([FEW, PADDED], tl.float32)
    of_keys = tl.zeros([FEW, PADDED], tl.float32)
    of_values = tl.zeros([FEW, PADDED], tl.float32)
    high = tl.minimum(part * PART + PART, real)
    for start in range(part * PART, tl.where(first < number, high, 0), COLUMNS):
        others = start + tl.arange(0, COLUMNS)
        starts, strides = (key, value), (key_strides[2], value_strides[2])
        scores, other_keys, other_values = _meet(
            as_queries, starts, strides, order, line, start, high, slope, BIASED, FARTHEST, WIDTH, PADDED, COLUMNS
        )
        of_queries = _add_as_queries(scores, other_keys, other_values, gradients, normaliser, mean, of_queries, SCALE)
        starts, strides = (query, gradient), (query_strides[2], gradient_strides[2])
        scores, other_queries, other_gradients = _meet(
            as_keys, starts, strides, order, line, start, high, slope, BIASED, FARTHEST, WIDTH, PADDED, COLUMNS
        )
        other_normaliser = tl.load(normalisers + others, mask=others < high, other=float("inf"))
        other_mean = tl.load(means + others, mask=others < high, other=0.0)
        of_keys, of_values = _add_as_keys(
            scores, other_queries, other_gradients, values, other_normaliser, other_mean, of_keys, of_values, SCALE
        )
    columns = tl.arange(0, PADDED)
    inside = (ranks < GLOBAL)[:, None] & (columns < WIDTH)[None, :]
    places = (line_of_part + ranks)[:, None] * WIDTH + columns[None, :]
    tl.store(of_queries_parts + places, of_queries * (SCALE * LN2), mask=inside)
    tl.store(of_keys_parts + places, of_keys * (SCALE * LN2), mask=inside)
    tl.store(of_values_parts + places, of_values, mask=inside)


@triton.jit(do_not_specialize=CHANGING)
def _join(
    rows,
    logarithms,
    normalisers,
    order,
    counts,
    target,
    target_strides,
    parts,
    heads,
    length,
    GLOBAL: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    FEW: tl.constexpr,
):
    """Write the rows of a tile of global tokens, the sums of those of all parts.

    With logarithms of the parts' normalisers, they are the means that these weigh, and the normalisers are written too.
    """
    tiles: tl.constexpr = (GLOBAL + FEW - 1) // FEW
    sequence, sequences = tl.program_id(0) // tiles, tl.num_programs(0) // tiles
    number = tl.minimum(GLOBAL, count_of(counts, sequence, heads, length))
    ranks = tl.program_id(0) % tiles * FEW + tl.arange(0, FEW)
    shown = ranks < number
    columns = tl.arange(0, PADDED)
    highest = tl.full([FEW], LOWEST, tl.float32)
    total = tl.zeros([FEW], tl.float32)
    mixed = tl.zeros([FEW, PADDED], tl.float32)
    for part in range(parts):
        lines = (part * sequences + sequence).to(tl.int64) * GLOBAL + ranks
        inside = shown[:, None] & (columns < WIDTH)[None, :]
        own = tl.load(rows + lines[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)
        if logarithms is None:
            mixed += own
        else:
            logarithm = tl.load(logarithms + lines, mask=shown, other=LOWEST)
            higher = tl.maximum(highest, logarithm)
            shrink, weight = tl.exp2(highest - higher), tl.exp2(logarithm - higher)
            mixed = mixed * shrink[:, None] + own * weight[:, None]
            total = total * shrink + weight
            highest = higher
    tokens = _tokens(order, (sequence // heads).to(tl.int64) * length, ranks, number)
    if logarithms is not None:
        mixed /= total[:, None]
        place = normalisers + sequence.to(tl.int64) * length + ranks
        tl.store(place, highest + tl.log2(total), mask=shown)
    _store_rows(target, target_strides, sequence, heads, tokens, shown, mixed, WIDTH, PADDED)


@triton.jit
def _part_of(length, GLOBAL: tl.constexpr, FEW: tl.constexpr, PART: tl.constexpr):
    """Return this program's sequence, part and first global token, and where the rows of the part begin."""
    tiles: tl.constexpr = (GLOBAL + FEW - 1) // FEW
    parts = tl.cdiv(length, PART)
    program = tl.program_id(0) // tiles
    sequence, part = program // parts, program % parts
    sequences = tl.num_programs(0) // (tiles * parts)
    return sequence, part, tl.program_id(0) % tiles * FEW, (part * sequences + sequence).to(tl.int64) * GLOBAL


@triton.jit
def _reached(first, number, real, REACH: tl.constexpr, ROWS: tl.constexpr):
    """Return the first rank that the window of a tile reaches, global ones left out, and the one after the last.

    Nothing is reached if all tokens of the tile are global, or padding.
    """
    low = tl.maximum(first - REACH, number)
    high = tl.minimum(first + ROWS + REACH, real)
    return low, tl.where((first < real) & (first + ROWS > number), high, 0)


@triton.jit
def _tokens(order, line, ranks, high):
    """Return the tokens of `ranks` below `high`; `line` is where a row begins in `order` [B, N]."""
    if order is None:
        return ranks
    else:
        return tl.load(order + line + ranks, mask=ranks < high, other=0)


@triton.jit
def _meet(
    own,
    starts,
    strides,
    order,
    line,
    start,
    high,
    slope,
    BIASED: tl.constexpr,
    REACH: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Return the scores of a tile with another, which is loaded, and two tensors' rows of the other one.

    Args:
        own: rows of the tile, its first rank, all its ranks, and its tokens.
        starts: where the sequence starts in the tensor that scores are formed with, and in another one.
        strides: of the tokens of both.
        order: see `_tokens`.
        line: see there.
        start: first rank of the other tile.
        high: ranks from here on are absent.
        slope: of ALiBi, for scores that are not scaled yet.
        BIASED: whether there are slopes.
        REACH: greatest distance of ranks that see each other.
        WIDTH: d.
        PADDED: d, as kernels hold it.
        COLUMNS: tokens of the other tile.
    """
    own_rows, first, own_ranks, own_tokens = own
    ranks = start + tl.arange(0, COLUMNS)
    there = ranks < high
    tokens = _tokens(order, line, ranks, high)
    rows = load_rows(starts[0], strides[0], tokens, there, WIDTH, PADDED)
    other_rows = load_rows(starts[1], strides[1], tokens, there, WIDTH, PADDED)
    scores = product(own_rows, tl.trans(rows))
    if BIASED:
        scores -= slope * tl.abs(own_tokens[:, None] - tokens[None, :])
    farthest = tl.maximum(start + COLUMNS - 1 - first, first + own_ranks.shape[0] - 1 - start)
    if (farthest > REACH) | (start + COLUMNS > high):  # in most tiles, everything is seen
        near = tl.abs(own_ranks[:, None] - tl.where(there, ranks, NOWHERE)[None, :]) <= REACH
        scores = tl.where(near, scores, float("-inf"))
    return scores, rows, other_rows


@triton.jit
def _take(scores, values, highest, total, mixed, SCALE: tl.constexpr):
    """Add a tile of keys to the highest scores of queries, to the sums of their weights, and to those of values."""
    higher = tl.maximum(highest, tl.max(scores, 1))
    shrink = tl.exp2((highest - higher) * SCALE)
    weights = tl.exp2(scores * SCALE - (higher * SCALE)[:, None])
    total = total * shrink + tl.sum(weights, 1)
    return higher, total, product(weights.to(values.dtype), values, mixed * shrink[:, None])


@triton.jit
def _add_as_queries(scores, keys, values, gradients, normaliser, mean, of_queries, SCALE: tl.constexpr):
    """Return the gradients of queries, with those by a tile of keys; scores are [queries, keys]."""
    weights = tl.exp2(scores * SCALE - normaliser[:, None])
    of_scores = weights * (product(gradients, tl.trans(values)) - mean[:, None])
    return product(of_scores.to(keys.dtype), keys, of_queries)


@triton.jit
def _add_as_keys(scores, queries, gradients, values, normaliser, mean, of_keys, of_values, SCALE: tl.constexpr):
    """Return the gradients of keys and values, with those by a tile of queries; scores are [keys, queries]."""
    weights = tl.exp2(scores * SCALE - normaliser[None, :])
    of_values = product(weights.to(gradients.dtype), gradients, of_values)
    of_scores = weights * (product(values, tl.trans(gradients)) - mean[None, :])
    return product(of_scores.to(queries.dtype), queries, of_keys), of_values


@triton.jit
def _store_rows(target, strides, sequence, heads, tokens, mine, rows, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Write `rows` as the rows of the `tokens` of a sequence that are `mine`."""
    columns = tl.arange(0, PADDED)
    start = start_of(target, strides, sequence, heads)
    places = (start + tokens.to(tl.int64) * strides[2])[:, None] + columns[None, :]
    tl.store(places, rows.to(target.dtype.element_ty), mask=mine[:, None] & (columns < WIDTH)[None, :])
