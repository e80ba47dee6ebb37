"""FAVOR+ attention with stabilised `exp` features by Triton kernels, which a GPU runs in place of torch's operations.

The tests have the same computation in a readable form. They compute the same as the mechanism's torch operations, in
its notation. A^T v is softmax attention of the 2 D columns over the keys, with z as its log-sum-exp, and the output is
softmax attention of the queries over the columns: two fused attentions, so that features exist in registers only.
Exponents and sums are float32; products have operands of the inputs' type and float32 sums. Nothing is added up in an
order left to chance, and nothing asks the device for a number.

Shapes: B batch, H heads, N tokens, d head width, D draws, M = 2 D columns: exp(+w.x) of every draw, then exp(-w.x). A
sequence is one head of one row, B H in all. Exponents have the base 2, and so have logarithms.
"""

import os
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.attention.kernels import INTERPRETED, Launch, launch, size_class

PROGRAMS = 264
"""Programs that keep a large GPU busy, two on each of 132 processors; the tokens are split until there are so many. A
constant, so that no sum depends on the GPU."""

LEAST_TOKENS = 256
"""Tokens in a split at least; below, putting splits together costs more than it gains."""

LARGEST_SPREAD = 15
"""Logarithm of the largest factor of features in the backward pass: the next power overflows in float16."""

LAUNCHES = {
    "half": {
        "summarise": Launch(64, 64, 4, 3),
        "attend": Launch(128, 32, 8, 2),
        "query gradients": Launch(64, 32, 4, 3),
        "summary gradients": Launch(64, 64, 4, 3),
        "key gradients": Launch(64, 32, 4, 3),
    },
    "half wide": {
        "summarise": Launch(32, 64, 8, 2),
        "attend": Launch(32, 16, 4, 2),
        "query gradients": Launch(32, 16, 4, 2),
        "summary gradients": Launch(32, 64, 8, 2),
        "key gradients": Launch(32, 16, 4, 2),
    },
    "single": {
        "summarise": Launch(16, 32, 8, 2),
        "attend": Launch(32, 16, 8, 2),
        "query gradients": Launch(32, 16, 8, 2),
        "summary gradients": Launch(16, 32, 8, 2),
        "key gradients": Launch(32, 16, 8, 2),
    },
}
"""How each kernel is launched, by `size_class`: rows are tokens and columns draws, or the other way about. A program's
share stays in registers so, with less than 100 KB of shared memory. Of `half`, the fastest of 30 on an H100 over 64 and
256 features, or one up to 6 % slower where the fastest spills with newer versions of Triton. See the same of LSH."""
LAUNCHES["single wide"] = LAUNCHES["single"]

_LOG2E = tl.constexpr(1.4426950408889634)
_LN2 = tl.constexpr(0.6931471805599453)
_LOWEST = tl.constexpr(-1e30)  # a maximum over nothing: far below all exponents, and finite
_INTERPRETED = tl.constexpr(os.environ.get(INTERPRETED) == "1")


class AttendByTriton(torch.autograd.Function):
    """Attention with stabilised `exp` features by Triton kernels.

    Keeps its arguments, z and A^T v, the output, which the layer after it keeps as well, and a normaliser a query: what
    exact attention keeps, with z and A^T v.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        draws: Tensor,
        real: Tensor | None,
        pads_queries: bool,
        scale: float,
    ) -> Tensor:
        """Return the output [B, H, N, d] in the type of `value`, zeros at padding.

        Args:
            ctx: autograd's.
            query: [B, H, N, d], in any layout.
            key: as `query`.
            value: as `query`.
            draws: [H, D, d]; without gradient.
            real: [B, N], true at real tokens; None = all real.
            pads_queries: whether `real` is of queries as well as of keys.
            scale: factor of queries and keys.
        """
        draws, real = draws.contiguous(), None if real is None else real.contiguous()
        padded = pads_queries and real is not None
        sums, summaries = _summarise(key, value, draws, real, scale)
        output = torch.empty_like(value)
        normalisers = sums.new_empty(sums.shape[0], query.shape[2])
        plan = _plan("attend", query, draws)
        mask = real if padded else query
        tensors: tuple[Any, ...] = (query, draws, mask, sums, summaries, output, normalisers)
        plan.launch(_attend_kernel, *tensors, query.stride(), output.stride(), scale, PADDED=padded)
        ctx.save_for_backward(query, key, value, draws, real, sums, summaries, output, normalisers)
        ctx.padded, ctx.scale = padded, scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value, [B, H, N, d] each."""
        query, key, value, draws, real, sums, summaries, output, normalisers = ctx.saved_tensors
        scale, padded = ctx.scale, ctx.padded
        of_query, of_key, of_value = (torch.empty_like(rows) for rows in (query, key, value))
        means = torch.empty_like(normalisers)
        plan = _plan("query gradients", query, draws)
        mask = real if padded else query
        tensors: tuple[Any, ...] = (query, output, gradient, draws, mask, sums, summaries, normalisers, of_query, means)
        strides = (query.stride(), output.stride(), gradient.stride(), of_query.stride())
        plan.launch(_query_gradients_kernel, *tensors, *strides, scale, PADDED=padded)
        # Of every split: the gradient of A^T v, then the shift, which is d(A^T v) and dz reaching E(k) by the sums.
        plan = _plan("summary gradients", query, draws)
        parts = sums.new_empty(plan.splits, summaries.numel() + sums.numel())
        spread = min(query.shape[2].bit_length() - 1, LARGEST_SPREAD)
        tensors = (query, gradient, draws, mask, sums, normalisers, means, parts)
        numbers = (scale, spread, plan.tokens)
        plan.launch(_summary_gradients_kernel, *tensors, query.stride(), gradient.stride(), *numbers, PADDED=padded)
        of_summaries = parts[0] if plan.splits == 1 else parts.sum(0)
        plan = _plan("key gradients", query, draws)
        tensors = (key, value, draws, key if real is None else real, sums, of_summaries, of_key, of_value)
        strides = (key.stride(), value.stride(), of_key.stride(), of_value.stride())
        plan.launch(_key_gradients_kernel, *tensors, *strides, scale, spread, PADDED=real is not None)
        return of_query, of_key, of_value, None, None, None, None


class _Plan(NamedTuple):
    """The division of a kernel's work into programs, which depends only on shapes and types.

    Args:
        programs: their number.
        blocks: sizes that the kernel is compiled for.
        splits: parts that the tokens are walked over in, if a program takes a block of draws; otherwise 1.
        tokens: tokens in a split.
        sizes: H, B H and N.
    """

    programs: int
    blocks: dict[str, int]
    splits: int
    tokens: int
    sizes: tuple[int, int, int]

    def launch(self, kernel: Any, *arguments: Any, **constants: Any) -> None:
        """Start the programs of a kernel, whose last arguments are the sizes."""
        launch(kernel, self.programs, *arguments, *self.sizes, **constants, **self.blocks)


def _plan(kernel: str, query: Tensor, draws: Tensor) -> _Plan:
    """Return the plan of a kernel for `query` [B, H, N, d] and `draws` [H, D, d].

    A program of the kernels that sum over tokens takes a block of draws, and walks over the tokens of a split. One of
    the others takes a block of tokens, and walks over the draws.
    """
    batch, heads, length, width = query.shape
    sequences, count = batch * heads, draws.shape[1]
    how = LAUNCHES[size_class(query)][kernel]
    by_draws = kernel in ("summarise", "summary gradients")
    block_draws, block_tokens = how[:2] if by_draws else how[1::-1]
    block_draws = min(block_draws, max(16, triton.next_power_of_2(count)))
    blocks = {
        "DRAWS": count,
        "WIDTH": width,
        "BLOCK_WIDTH": max(16, triton.next_power_of_2(width)),
        "BLOCK_DRAWS": block_draws,
        "BLOCK_TOKENS": block_tokens,
        "num_warps": how.warps,
        "num_stages": how.stages,
    }
    sizes = (heads, sequences, length)
    if not by_draws:
        return _Plan(sequences * triton.cdiv(length, block_tokens), blocks, 1, length, sizes)
    programs = sequences * triton.cdiv(count, block_draws)
    share = max(LEAST_TOKENS, length // triton.cdiv(PROGRAMS, programs) // block_tokens * block_tokens)
    splits = triton.cdiv(length, share)
    return _Plan(programs * splits, blocks, splits, share, sizes)


def _summarise(key: Tensor, value: Tensor, draws: Tensor, real: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """Return z [BH, M] in float32 and A^T v [BH, M, d].

    A^T v is in float32, or in the type of `value` where it would take more than the output that exact attention keeps.
    """
    plan = _plan("summarise", key, draws)
    _, sequences, length = plan.sizes
    columns, width = 2 * draws.shape[1], draws.shape[2]
    dtype = torch.float32 if 4 * columns <= value.itemsize * length else value.dtype

    def empty(*shape: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        sums = value.new_empty(*shape, columns, dtype=torch.float32)
        return sums, value.new_empty(*shape, columns, width, dtype=dtype)

    result = empty(sequences, dtype=dtype)
    parts = result if plan.splits == 1 else empty(plan.splits, sequences, dtype=torch.float32)
    tensors = (key, value, draws, key if real is None else real, *parts)
    numbers = (scale, plan.tokens)
    plan.launch(_summarise_kernel, *tensors, key.stride(), value.stride(), *numbers, PADDED=real is not None)
    if plan.splits > 1:
        constants = {"WIDTH": width, "BLOCK_WIDTH": plan.blocks["BLOCK_WIDTH"], "BLOCK_SPLITS": 16, "num_warps": 1}
        count = sequences * columns
        launch(_join_kernel, count, *parts, *result, plan.splits, count, **constants)
    return result


@triton.jit
def _dot(left, right, total=None):
    """Return the product of two matrices, plus `total`."""
    if _INTERPRETED:  # whose product of bfloat16 is that of the bits, read as integers
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, total, input_precision="ieee")


@triton.jit
def _sequence(tensor, strides, sequence, heads):
    """Return where a sequence of `tensor` [B, H, N, d] begins."""
    row, head = (sequence // heads).to(tl.int64), (sequence % heads).to(tl.int64)
    return tensor + row * strides[0] + head * strides[1]


@triton.jit
def _places(start, tokens, columns, strides):
    """Return the offsets of a block of rows from where its sequence begins."""
    return start + tokens[:, None].to(tl.int64) * strides[2] + columns[None] * strides[3]


@triton.jit
def _load_draws(draws, head, own, scale, DRAWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """Return the scaled draws `own` of a head, for exponents of the base 2, in float32; zeros beyond the last."""
    columns = tl.arange(0, BLOCK_WIDTH)
    places = draws + (head * DRAWS + own[:, None]) * WIDTH + columns[None]
    inside = (own < DRAWS)[:, None] & (columns < WIDTH)[None]
    return tl.load(places, inside, 0.0).to(tl.float32) * (scale * _LOG2E)


@triton.jit
def _load_summary(summaries, first, own, DRAWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """Return the rows `own` of a half of A^T v, or of its gradient; the half begins at column `first` of all."""
    columns = tl.arange(0, BLOCK_WIDTH)
    places = summaries + (first + own[:, None]) * WIDTH + columns[None]
    return tl.load(places, (own < DRAWS)[:, None] & (columns < WIDTH)[None], 0.0)


@triton.jit
def _low(factors, dtype: tl.constexpr):
    """Return the rounding error of `factors` in a type, in that type."""
    return (factors - factors.to(dtype).to(tl.float32)).to(dtype)


@triton.jit
def _project(rows, factors, FACTORS_FIRST: tl.constexpr):
    """Return the products of rows [n, d] and factors [m, d]: [m, n] with the factors first, else [n, m].

    Factors of a wider type than the rows are the sum of two numbers of that type, which have twice its digits. The
    error of an exponent is a relative error of its feature, and draws that are rounded are other draws; gradients of
    exponents are differences of such products.
    """
    high = factors.to(rows.dtype)
    products = _dot(high, tl.trans(rows)) if FACTORS_FIRST else _dot(rows, tl.trans(high))
    if factors.dtype != rows.dtype:
        low = _low(factors, rows.dtype)
        products = _dot(low, tl.trans(rows), products) if FACTORS_FIRST else _dot(rows, tl.trans(low), products)
    return products


@triton.jit
def _combine(weights, factors, total, dtype: tl.constexpr):
    """Return `total` plus the products of weights [n, m] in a type and factors [m, d] that keep twice its digits."""
    weights = weights.to(dtype)
    total = _dot(weights, factors.to(dtype), total)
    return total if dtype == tl.float32 else _dot(weights, _low(factors, dtype), total)


@triton.jit
def _shown(real, row, tokens, last, length, PADDED: tl.constexpr):
    """Return which of `tokens` [n] are real and below `last`."""
    inside = tokens < last
    if PADDED:
        inside = tl.load(real + row.to(tl.int64) * length + tokens, inside, 0) != 0
    return inside


@triton.jit
def _offsets(keys, shown, scale):
    """Return the terms of the exponents of `keys` [n, d] that all columns have; -inf where they are not shown."""
    keys = keys.to(tl.float32)
    return tl.where(shown, tl.sum(keys * keys, 1) * (scale * scale * _LOG2E * -0.5), float("-inf"))


@triton.jit
def _draws_to_meet(shown, DRAWS: tl.constexpr, PADDED: tl.constexpr):
    """Return the number of draws for a block of tokens: all of them, or none if no token is shown."""
    if PADDED:
        return tl.max(shown.to(tl.int32), 0) * DRAWS
    else:
        return DRAWS


@triton.jit
def _take_keys(exponents, values, peak, total, summary):
    """Add a block of keys to the largest exponents, sums and summaries of a half: exponents [D, n], values [n, d]."""
    raised = tl.maximum(peak, tl.max(exponents, 1))
    decay = tl.exp2(peak - raised)
    features = tl.exp2(exponents - raised[:, None])
    summary = _dot(features.to(values.dtype), values, summary * decay[:, None])
    return raised, total * decay + tl.sum(features, 1), summary


@triton.jit
def _store_summary(sums, summaries, first, own, peak, total, summary, DRAWS: tl.constexpr, WIDTH: tl.constexpr):
    """Store a half of z and A^T v; the half begins at column `first` of all."""
    total = tl.maximum(total, 1)  # it is 1 at least, but where there was no real token
    columns = tl.arange(0, summary.shape[1])
    inside = own < DRAWS
    tl.store(sums + first + own, peak + tl.log2(total), inside)
    places = summaries + (first + own[:, None]) * WIDTH + columns[None]
    tl.store(places, summary / total[:, None], inside[:, None] & (columns < WIDTH)[None])


@triton.jit(do_not_specialize=["tokens", "sequences", "length"])
def _summarise_kernel(
    key,
    value,
    draws,
    real,
    sums,
    summaries,
    key_strides,
    value_strides,
    scale,
    tokens,
    heads,
    sequences,
    length,
    PADDED: tl.constexpr,
    DRAWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_DRAWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Compute A^T v and z of a block of draws over the tokens of a split."""
    blocks: tl.constexpr = (DRAWS + BLOCK_DRAWS - 1) // BLOCK_DRAWS
    program = tl.program_id(0)
    sequence, split = program // blocks % sequences, program // blocks // sequences
    columns = tl.arange(0, BLOCK_WIDTH)
    own = program % blocks * BLOCK_DRAWS + tl.arange(0, BLOCK_DRAWS)
    drawn = _load_draws(draws, sequence % heads, own, scale, DRAWS, WIDTH, BLOCK_WIDTH)
    keys_start = _sequence(key, key_strides, sequence, heads)
    values_start = _sequence(value, value_strides, sequence, heads)
    positive_peak = tl.full([BLOCK_DRAWS], _LOWEST, tl.float32)
    negative_peak = positive_peak
    positive_total = tl.zeros([BLOCK_DRAWS], tl.float32)
    negative_total = positive_total
    positive_summary = tl.zeros([BLOCK_DRAWS, BLOCK_WIDTH], tl.float32)
    negative_summary = positive_summary
    first = split * tokens
    last = tl.minimum(first + tokens, length)
    for start in range(first, last, BLOCK_TOKENS):
        places = start + tl.arange(0, BLOCK_TOKENS)
        shown = _shown(real, sequence // heads, places, last, length, PADDED)
        inside = shown[:, None] & (columns < WIDTH)[None]
        keys = tl.load(_places(keys_start, places, columns, key_strides), inside, 0.0)
        values = tl.load(_places(values_start, places, columns, value_strides), inside, 0.0)
        offsets = _offsets(keys, shown, scale)[None]
        products = _project(keys, drawn, True)
        positive_peak, positive_total, positive_summary = _take_keys(
            offsets + products, values, positive_peak, positive_total, positive_summary
        )
        negative_peak, negative_total, negative_summary = _take_keys(
            offsets - products, values, negative_peak, negative_total, negative_summary
        )
    half = (split * sequences + sequence).to(tl.int64) * 2 * DRAWS
    _store_summary(sums, summaries, half, own, positive_peak, positive_total, positive_summary, DRAWS, WIDTH)
    _store_summary(sums, summaries, half + DRAWS, own, negative_peak, negative_total, negative_summary, DRAWS, WIDTH)


@triton.jit(do_not_specialize=["splits", "count"])
def _join_kernel(
    part_sums,
    part_summaries,
    sums,
    summaries,
    splits,
    count,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
):
    """Join z and A^T v of one column from those of the splits; `count` is the number of columns of all sequences."""
    column = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_WIDTH)
    peak = tl.full([], float("-inf"), tl.float32)
    total = tl.zeros([], tl.float32)
    summary = tl.zeros([BLOCK_WIDTH], tl.float32)
    for start in range(0, splits, BLOCK_SPLITS):
        own = start + tl.arange(0, BLOCK_SPLITS)
        places = own.to(tl.int64) * count + column
        exponents = tl.load(part_sums + places, own < splits, float("-inf"))
        inside = (own < splits)[:, None] & (columns < WIDTH)[None]
        parts = tl.load(part_summaries + places[:, None] * WIDTH + columns[None], inside, 0.0)
        raised = tl.maximum(peak, tl.max(exponents, 0))
        decay = tl.exp2(peak - raised)
        weights = tl.exp2(exponents - raised)
        total = total * decay + tl.sum(weights, 0)
        summary = summary * decay + tl.sum(parts * weights[:, None], 0)
        peak = raised
    tl.store(sums + column, peak + tl.log2(total))
    tl.store(summaries + column * WIDTH + columns, summary / total, columns < WIDTH)


@triton.jit
def _query_exponents(queries, drawn, sums, first, own, DRAWS: tl.constexpr):
    """Return the exponents [n, D] of both halves of columns; -inf beyond the last draw."""
    products = _project(queries, drawn, False)
    positive = tl.load(sums + first + own, own < DRAWS, float("-inf"))[None]
    negative = tl.load(sums + first + DRAWS + own, own < DRAWS, float("-inf"))[None]
    return positive + products, negative - products


@triton.jit(do_not_specialize=["sequences", "length"])
def _attend_kernel(
    query,
    draws,
    real,
    sums,
    summaries,
    output,
    normalisers,
    query_strides,
    output_strides,
    scale,
    heads,
    sequences,
    length,
    PADDED: tl.constexpr,
    DRAWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_DRAWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Compute the output at a block of tokens, and the log-sum-exp of their exponents over the columns."""
    blocks = tl.cdiv(length, BLOCK_TOKENS)
    sequence = tl.program_id(0) // blocks
    columns = tl.arange(0, BLOCK_WIDTH)
    places = tl.program_id(0) % blocks * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    shown = _shown(real, sequence // heads, places, length, length, PADDED)
    inside = columns[None] < WIDTH
    start = _sequence(query, query_strides, sequence, heads)
    queries = tl.load(_places(start, places, columns, query_strides), inside & shown[:, None], 0.0)
    dtype: tl.constexpr = output.dtype.element_ty
    first = sequence.to(tl.int64) * 2 * DRAWS
    peak = tl.full([BLOCK_TOKENS], _LOWEST, tl.float32)
    total = tl.zeros([BLOCK_TOKENS], tl.float32)
    mixed = tl.zeros([BLOCK_TOKENS, BLOCK_WIDTH], tl.float32)
    for block in range(0, _draws_to_meet(shown, DRAWS, PADDED), BLOCK_DRAWS):
        own = block + tl.arange(0, BLOCK_DRAWS)
        drawn = _load_draws(draws, sequence % heads, own, scale, DRAWS, WIDTH, BLOCK_WIDTH)
        positive, negative = _query_exponents(queries, drawn, sums, first, own, DRAWS)
        raised = tl.maximum(peak, tl.maximum(tl.max(positive, 1), tl.max(negative, 1)))
        decay = tl.exp2(peak - raised)
        positive = tl.exp2(positive - raised[:, None])
        negative = tl.exp2(negative - raised[:, None])
        total = total * decay + tl.sum(positive, 1) + tl.sum(negative, 1)
        summary = _load_summary(summaries, first, own, DRAWS, WIDTH, BLOCK_WIDTH).to(dtype)
        mixed = _dot(positive.to(dtype), summary, mixed * decay[:, None])
        summary = _load_summary(summaries, first + DRAWS, own, DRAWS, WIDTH, BLOCK_WIDTH).to(dtype)
        mixed = _dot(negative.to(dtype), summary, mixed)
        peak = raised
    total = tl.maximum(total, 1)  # it is 1 at least, but where no token is shown
    start = _sequence(output, output_strides, sequence, heads)
    mixed = tl.where(shown[:, None], mixed / total[:, None], 0.0)
    tl.store(_places(start, places, columns, output_strides), mixed, inside & (places < length)[:, None])
    tl.store(normalisers + sequence.to(tl.int64) * length + places, peak + tl.log2(total), places < length)


@triton.jit(do_not_specialize=["sequences", "length"])
def _query_gradients_kernel(
    query,
    output,
    gradient,
    draws,
    real,
    sums,
    summaries,
    normalisers,
    of_query,
    means,
    query_strides,
    output_strides,
    gradient_strides,
    of_query_strides,
    scale,
    heads,
    sequences,
    length,
    PADDED: tl.constexpr,
    DRAWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_DRAWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Compute the gradient of the queries at a block of tokens, and the mean gradient of the columns' weights.

    The mean is the product of output and gradient, since the output is the columns' mean.
    """
    blocks = tl.cdiv(length, BLOCK_TOKENS)
    sequence = tl.program_id(0) // blocks
    columns = tl.arange(0, BLOCK_WIDTH)
    places = tl.program_id(0) % blocks * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    shown = _shown(real, sequence // heads, places, length, length, PADDED)
    inside = shown[:, None] & (columns < WIDTH)[None]
    start = _sequence(query, query_strides, sequence, heads)
    queries = tl.load(_places(start, places, columns, query_strides), inside, 0.0)
    start = _sequence(output, output_strides, sequence, heads)
    outputs = tl.load(_places(start, places, columns, output_strides), inside, 0.0)
    start = _sequence(gradient, gradient_strides, sequence, heads)
    gradients = tl.load(_places(start, places, columns, gradient_strides), inside, 0.0)
    mean = tl.sum(outputs.to(tl.float32) * gradients.to(tl.float32), 1)
    rows = sequence.to(tl.int64) * length + places
    normaliser = tl.load(normalisers + rows, shown, 0.0)
    first = sequence.to(tl.int64) * 2 * DRAWS
    of_queries = tl.zeros([BLOCK_TOKENS, BLOCK_WIDTH], tl.float32)
    for block in range(0, _draws_to_meet(shown, DRAWS, PADDED), BLOCK_DRAWS):
        own = block + tl.arange(0, BLOCK_DRAWS)
        drawn = _load_draws(draws, sequence % heads, own, scale, DRAWS, WIDTH, BLOCK_WIDTH)
        positive, negative = _query_exponents(queries, drawn, sums, first, own, DRAWS)
        summary = _load_summary(summaries, first, own, DRAWS, WIDTH, BLOCK_WIDTH)
        of_positive = _project(gradients, summary, False)
        summary = _load_summary(summaries, first + DRAWS, own, DRAWS, WIDTH, BLOCK_WIDTH)
        of_negative = _project(gradients, summary, False)
        of_products = tl.exp2(positive - normaliser[:, None]) * (of_positive - mean[:, None])
        of_products -= tl.exp2(negative - normaliser[:, None]) * (of_negative - mean[:, None])
        of_queries = _combine(of_products, drawn, of_queries, queries.dtype)
    start = _sequence(of_query, of_query_strides, sequence, heads)
    inside = (places < length)[:, None] & (columns < WIDTH)[None]
    of_queries = tl.where(shown[:, None], of_queries * _LN2, 0.0)
    tl.store(_places(start, places, columns, of_query_strides), of_queries, inside)
    tl.store(means + rows, mean, places < length)


@triton.jit(do_not_specialize=["spread", "tokens", "sequences", "length"])
def _summary_gradients_kernel(
    query,
    gradient,
    draws,
    real,
    sums,
    normalisers,
    means,
    parts,
    query_strides,
    gradient_strides,
    scale,
    spread,
    tokens,
    heads,
    sequences,
    length,
    PADDED: tl.constexpr,
    DRAWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_DRAWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Compute the contribution of the tokens of a split to the gradient of A^T v and to the shift, at a block of draws.

    The shift of a column is dz less the product of A^T v and its gradient, which is the sum of the queries' weights
    times their mean gradients. Both are divided by 2 to the `spread`, a part of the number of tokens.
    """
    blocks: tl.constexpr = (DRAWS + BLOCK_DRAWS - 1) // BLOCK_DRAWS
    program = tl.program_id(0)
    sequence, split = program // blocks % sequences, program // blocks // sequences
    columns = tl.arange(0, BLOCK_WIDTH)
    own = program % blocks * BLOCK_DRAWS + tl.arange(0, BLOCK_DRAWS)
    present = own < DRAWS
    drawn = _load_draws(draws, sequence % heads, own, scale, DRAWS, WIDTH, BLOCK_WIDTH)
    half = sequence.to(tl.int64) * 2 * DRAWS
    positive_sums = tl.load(sums + half + own, present, float("-inf"))[:, None]
    negative_sums = tl.load(sums + half + DRAWS + own, present, float("-inf"))[:, None]
    queries_start = _sequence(query, query_strides, sequence, heads)
    gradients_start = _sequence(gradient, gradient_strides, sequence, heads)
    rows = sequence.to(tl.int64) * length
    positive_summary = tl.zeros([BLOCK_DRAWS, BLOCK_WIDTH], tl.float32)
    negative_summary = positive_summary
    positive_shift = tl.zeros([BLOCK_DRAWS], tl.float32)
    negative_shift = positive_shift
    first = split * tokens
    last = tl.minimum(first + tokens, length)
    for start in range(first, last, BLOCK_TOKENS):
        places = start + tl.arange(0, BLOCK_TOKENS)
        shown = _shown(real, sequence // heads, places, last, length, PADDED)
        inside = shown[:, None] & (columns < WIDTH)[None]
        queries = tl.load(_places(queries_start, places, columns, query_strides), inside, 0.0)
        gradients = tl.load(_places(gradients_start, places, columns, gradient_strides), inside, 0.0)
        normaliser = tl.load(normalisers + rows + places, shown, float("inf"))[None]
        mean = tl.load(means + rows + places, shown, 0.0)[None]
        products = _project(queries, drawn, True)
        positive = tl.exp2(positive_sums + products - normaliser)
        negative = tl.exp2(negative_sums - products - normaliser)
        # Weights as the products take them, rounded, since shift and products nearly cancel where few tokens are seen.
        positive, negative = positive.to(gradients.dtype), negative.to(gradients.dtype)
        positive_summary = _dot(positive, gradients, positive_summary)
        negative_summary = _dot(negative, gradients, negative_summary)
        positive_shift -= tl.sum(positive.to(tl.float32) * mean, 1)
        negative_shift -= tl.sum(negative.to(tl.float32) * mean, 1)
    count = sequences.to(tl.int64) * 2 * DRAWS
    parts += split * count * (WIDTH + 1)
    factor = tl.exp2(-spread.to(tl.float32))
    inside = present[:, None] & (columns < WIDTH)[None]
    places = parts + (half + own[:, None]) * WIDTH + columns[None]
    tl.store(places, positive_summary * factor, inside)
    tl.store(places + DRAWS * WIDTH, negative_summary * factor, inside)
    places = parts + count * WIDTH + half + own
    tl.store(places, positive_shift * factor, present)
    tl.store(places + DRAWS, negative_shift * factor, present)


@triton.jit(do_not_specialize=["spread", "sequences", "length"])
def _key_gradients_kernel(
    key,
    value,
    draws,
    real,
    sums,
    of_summaries,
    of_key,
    of_value,
    key_strides,
    value_strides,
    of_key_strides,
    of_value_strides,
    scale,
    spread,
    heads,
    sequences,
    length,
    PADDED: tl.constexpr,
    DRAWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_DRAWS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
):
    """Compute the gradients of keys and values at a block of tokens.

    A column's features sum to 1 over the tokens, so that float16 would lose most of them, and the gradient of its
    summary is a sum over all queries, which could overflow. Two to the `spread` goes from the one to the other.
    """
    blocks = tl.cdiv(length, BLOCK_TOKENS)
    sequence = tl.program_id(0) // blocks
    columns = tl.arange(0, BLOCK_WIDTH)
    places = tl.program_id(0) % blocks * BLOCK_TOKENS + tl.arange(0, BLOCK_TOKENS)
    shown = _shown(real, sequence // heads, places, length, length, PADDED)
    inside = shown[:, None] & (columns < WIDTH)[None]
    start = _sequence(key, key_strides, sequence, heads)
    keys = tl.load(_places(start, places, columns, key_strides), inside, 0.0)
    start = _sequence(value, value_strides, sequence, heads)
    values = tl.load(_places(start, places, columns, value_strides), inside, 0.0)
    offsets = (_offsets(keys, shown, scale) + spread.to(tl.float32))[:, None]
    first = sequence.to(tl.int64) * 2 * DRAWS
    shifts = of_summaries + sequences.to(tl.int64) * 2 * DRAWS * WIDTH + first
    of_keys = tl.zeros([BLOCK_TOKENS, BLOCK_WIDTH], tl.float32)
    of_values = of_keys
    of_offsets = tl.zeros([BLOCK_TOKENS], tl.float32)
    for block in range(0, _draws_to_meet(shown, DRAWS, PADDED), BLOCK_DRAWS):
        own = block + tl.arange(0, BLOCK_DRAWS)
        drawn = _load_draws(draws, sequence % heads, own, scale, DRAWS, WIDTH, BLOCK_WIDTH)
        products = _project(keys, drawn, False)
        features = tl.exp2(offsets + products - tl.load(sums + first + own, own < DRAWS, float("inf"))[None])
        of_summary = _load_summary(of_summaries, first, own, DRAWS, WIDTH, BLOCK_WIDTH)
        of_values = _dot(features.to(values.dtype), of_summary.to(values.dtype), of_values)
        shift = tl.load(shifts + own, own < DRAWS, 0.0)[None]
        positive = features * (_project(values, of_summary, False) + shift)
        features = tl.exp2(offsets - products - tl.load(sums + first + DRAWS + own, own < DRAWS, float("inf"))[None])
        of_summary = _load_summary(of_summaries, first + DRAWS, own, DRAWS, WIDTH, BLOCK_WIDTH)
        of_values = _dot(features.to(values.dtype), of_summary.to(values.dtype), of_values)
        shift = tl.load(shifts + DRAWS + own, own < DRAWS, 0.0)[None]
        negative = features * (_project(values, of_summary, False) + shift)
        of_keys = _combine(positive - negative, drawn, of_keys, keys.dtype)
        of_offsets += tl.sum(positive + negative, 1)
    of_keys = of_keys * _LN2 - keys.to(tl.float32) * (of_offsets * scale * scale)[:, None]
    inside = (places < length)[:, None] & (columns < WIDTH)[None]
    start = _sequence(of_key, of_key_strides, sequence, heads)
    tl.store(_places(start, places, columns, of_key_strides), of_keys, inside)
    start = _sequence(of_value, of_value_strides, sequence, heads)
    tl.store(_places(start, places, columns, of_value_strides), of_values, inside)
