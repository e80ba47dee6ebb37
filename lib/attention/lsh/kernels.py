"""LSH attention by Triton kernels, which a GPU runs in place of the torch operations of `mechanism.py`.

The tests have the same computation in a readable form. Tokens are gathered in the order of their buckets, so that no
sorted copies exist.

A program works on a tile of sorted tokens of one sequence, and on those that they see: a window, whose scores it never
holds all at once. Rounds are launched one after the other and add to the same output. In a round every token belongs to
one program, so there are no atomic sums, and results repeat bit by bit. Queries serve as keys and a token that is seen
sees as well, so the backward pass needs each score once for both.

Shapes: B batch, H heads, N tokens, d head width, R hash rounds, C tokens per chunk.
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

ITSELF = tl.constexpr(-1e30)
"""Score of a token and itself: finite, so that it sees itself where all others are absent."""

LAUNCHES = {
    "half": {
        "hash": Launch(128, 32, 8, 3),
        "forward": Launch(64, 32, 4, 5),
        "means": Launch(64, 64, 4, 2),
        "backward": Launch(64, 32, 4, 3),
    },
    "half wide": {
        "hash": Launch(128, 32, 8, 3),
        "forward": Launch(64, 32, 8, 2),
        "means": Launch(64, 32, 8, 2),
        "backward": Launch(64, 32, 8, 2),
    },
    "single": {
        "hash": Launch(64, 16, 4, 2),
        "forward": Launch(32, 32, 8, 2),
        "means": Launch(32, 32, 8, 2),
        "backward": Launch(32, 32, 8, 2),
    },
    "single wide": {
        "hash": Launch(64, 16, 4, 2),
        "forward": Launch(16, 16, 4, 2),
        "means": Launch(16, 16, 4, 2),
        "backward": Launch(16, 16, 4, 2),
    },
}
"""How each kernel is launched, by `size_class`. Registers suffice so, and at most 100 KB of shared memory are taken,
whatever the chunk. Of `half`, the fastest of 30 on an H100 (benchmarks/kernel_times.py --sweep). They are chosen
here, and not while a training runs: each adds up in another order, and a resumed run repeats its bits."""

CHANGING = ["turn", "length", "bits", "seed"]
"""Arguments whose values do not decide how a kernel is compiled."""


def attend(
    query: Tensor,
    value: Tensor,
    real: Tensor | None,
    rotations: Tensor,
    slopes: Tensor | None,
    *,
    chunk: int,
    masked: bool,
    dropout: float,
    seed: int,
) -> Tensor:
    """Return the mean over the rounds of attention within windows of sorted tokens.

    Args:
        query: [B, H, N, d]; serves as key. Products are in its type, sums and softmax in float32.
        value: [B, H, N, d].
        real: [B, N], true at real tokens; None = all real.
        rotations: [blocks, H, d, R, columns of a block], in float32.
        slopes: slopes of ALiBi [H], if it is used.
        chunk: C.
        masked: whether a token sees its own bucket only.
        dropout: probability of dropping a weight.
        seed: seed of the draws of dropout.

    Returns:
        [B, H, N, d] in the type of `value`, zeros at padding.
    """
    counts = None
    if real is not None:
        real, counts = real.contiguous(), real.sum(-1)
    order = sort(query, real, counts, rotations, chunk)
    return _Attend.apply(query, value, order, counts, _Window(chunk, masked, dropout, seed, slopes))


@torch.no_grad()
def sort(query: Tensor, real: Tensor | None, counts: Tensor | None, rotations: Tensor, chunk: int) -> Tensor:
    """Return the tokens of every round, sorted by bucket, those of a bucket by position.

    Buckets are those of `Mechanism.hash`, but for the rounding of two that are equally near. In half precision, a
    rotation is the sum of two numbers of twice the digits together, so that hashing uses matrix units.

    Args:
        query: as in `attend`, likewise `real`, `rotations` and `chunk`.
        real: see there.
        counts: number of real tokens [B]; None = all real.
        rotations: see there.
        chunk: see there.

    Returns:
        [BH, R, N] integers: the bucket, and in its lowest `bits_of(N)` bits the token. Padding is last.
    """
    batch, heads, length, width = query.shape
    rounds, bits = rotations.shape[3], bits_of(length)
    padding = triton.cdiv(length, chunk) + 1  # above every bucket
    number = torch.int32 if (padding + 1) << bits <= 2**31 else torch.int64
    packed = torch.empty(batch * heads, rounds, length, dtype=number, device=query.device)
    query = rows_apart(query)
    how = LAUNCHES[size_class(query)]["hash"]
    columns = triton.cdiv(triton.cdiv(length, chunk), 2)
    tensors = (query, real, counts, rotations, packed)
    strides = (query.stride()[:3], rotations.stride()[:4])
    constants = {
        "CHUNK": chunk,
        "WIDTH": width,
        "PADDED": padded_width(width),
        "BLOCK": rotations.shape[-1],
        "ROWS": how.rows,
        "COLUMNS": min(how.columns, max(16, triton.next_power_of_2(columns))),
        "num_warps": how.warps,
        "num_stages": how.stages,
    }
    launch(_hash, tiles_of(query, how), *tensors, *strides, heads, rounds, length, bits, padding, **constants)
    return packed.sort(dim=-1).values


def bits_of(length: int) -> int:
    """Return the number of bits that can number `length` tokens."""
    return max(1, (length - 1).bit_length())


class _Window(NamedTuple):
    """Keys that a token sees; as the arguments of `attend`."""

    chunk: int
    masked: bool
    dropout: float
    seed: int
    slopes: Tensor | None


class _Attend(torch.autograd.Function):
    """Keeps its arguments and the normalisers of the softmax [BH, R, N]; the backward pass computes weights again."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, value: Tensor, order: Tensor, counts: Tensor | None, window: _Window
    ) -> Tensor:
        """Return the output [B, H, N, d]."""
        query, value = rows_apart(query), rows_apart(value)
        normalisers = torch.empty(order.shape, dtype=torch.float32, device=order.device)
        output = torch.empty_like(value)
        sums = _sums(output, order)
        programs, numbers, constants = _arguments("forward", query, order, window)
        inputs = (query, value, order, counts, window.slopes, normalisers, sums)
        strides = (query.stride()[:3], value.stride()[:3], output.stride()[:3])
        for turn, target in enumerate(_targets(sums, output, order)):
            launch(_forward, programs, *inputs, target, *strides, turn, *numbers, FIRST=turn == 0, **constants)
        ctx.save_for_backward(query, value, order, counts, normalisers)
        ctx.window = window
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query and value [B, H, N, d]."""
        query, value, order, counts, normalisers = ctx.saved_tensors
        gradient = rows_apart(gradient)
        inputs = (query, value, gradient, order, counts, ctx.window.slopes, normalisers)
        strides = (query.stride()[:3], value.stride()[:3], gradient.stride()[:3])
        means = torch.empty_like(normalisers)
        programs, numbers, constants = _arguments("means", query, order, ctx.window)
        launch(_means, programs * order.shape[1], *inputs, means, *strides, *numbers, **constants)
        programs, numbers, constants = _arguments("backward", query, order, ctx.window)
        of_query, of_value = torch.empty_like(query), torch.empty_like(value)
        query_sums, value_sums = _sums(of_query, order), _sums(of_value, order)
        targets = zip(_targets(query_sums, of_query, order), _targets(value_sums, of_value, order), strict=True)
        all_strides = (*strides, of_query.stride()[:3], of_value.stride()[:3])
        for turn, (query_target, value_target) in enumerate(targets):
            written = (query_sums, query_target, value_sums, value_target)
            numbered = (turn, *numbers)
            launch(_backward, programs, *inputs, means, *written, *all_strides, *numbered, FIRST=turn == 0, **constants)
        return of_query, of_value, None, None, None


def _sums(result: Tensor, order: Tensor) -> Tensor:
    """Return the buffer for the sum over the rounds before the last one: float32, laid out like `result`."""
    return result if order.shape[1] == 1 else torch.empty_like(result, dtype=torch.float32)


def _targets(sums: Tensor, result: Tensor, order: Tensor) -> list[Tensor]:
    """Return where each round writes to."""
    return [sums] * (order.shape[1] - 1) + [result]


def _arguments(
    kernel: str, query: Tensor, order: Tensor, window: _Window
) -> tuple[int, tuple[int, ...], dict[str, Any]]:
    """Return programs a round, and the numbers and constants that all kernels of attention have in common."""
    _, heads, length, width = query.shape
    how = LAUNCHES[size_class(query)][kernel]
    constants = {
        "SCALE": math.log2(math.e) / math.sqrt(width),
        "CHUNK": window.chunk,
        "MASKED": window.masked,
        "DROPPED": round(window.dropout * 2**32),
        "WIDTH": width,
        "PADDED": padded_width(width),
        "ROWS": how.rows,
        "COLUMNS": how.columns,
        "num_warps": how.warps,
        "num_stages": how.stages,
    }
    return tiles_of(query, how), (heads, order.shape[1], length, bits_of(length), window.seed), constants


@triton.jit(do_not_specialize=["length", "bits", "padding"])
def _hash(
    query,
    real,
    counts,
    rotations,
    packed,
    query_strides,
    rotation_strides,
    heads,
    rounds,
    length,
    bits,
    padding,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write bucket and number of a tile of tokens, in every round."""
    sequence, first = tile_of(length, ROWS)
    tokens = first + tl.arange(0, ROWS)
    inside = tokens < length
    limit = (tl.cdiv(count_of(counts, sequence, heads, length), CHUNK) + 1) // 2  # columns that the sequence uses
    rows = load_rows(start_of(query, query_strides, sequence, heads), query_strides[2], tokens, inside, WIDTH, PADDED)
    depth = tl.arange(0, PADDED)
    head = rotations + (sequence % heads).to(tl.int64) * rotation_strides[1] + (depth * rotation_strides[2])[:, None]
    for turn in range(rounds):
        best = tl.full([ROWS, COLUMNS], -1.0, tl.float32)
        bucket = tl.full([ROWS, COLUMNS], 0, tl.int32)
        for number in range(0, limit, COLUMNS):
            columns = number + tl.arange(0, COLUMNS)
            used = (columns < limit)[None, :]
            places = (columns // BLOCK).to(tl.int64) * rotation_strides[0] + columns % BLOCK
            there = used & (depth < WIDTH)[:, None]
            rotation = tl.load(head + turn * rotation_strides[3] + places[None, :], mask=there, other=0.0)
            part = rotation.to(rows.dtype)
            projection = product(rows, part)
            if rows.dtype != tl.float32:
                projection = product(rows, (rotation - part.to(tl.float32)).to(rows.dtype), projection)
            size = tl.where(used, tl.abs(projection), -1.0)
            better = size > best
            bucket = tl.where(better, columns[None, :] + tl.where(projection < 0, limit, 0), bucket)
            best = tl.where(better, size, best)
        nearest = best == tl.max(best, 1)[:, None]
        chosen = tl.min(tl.where(nearest, bucket, padding), 1)
        if real is not None:
            shown = tl.load(real + (sequence // heads).to(tl.int64) * length + tokens, mask=inside, other=0)
            chosen = tl.where(shown, chosen, padding)
        place = packed + (sequence.to(tl.int64) * rounds + turn) * length + tokens
        tl.store(place, (chosen.to(packed.dtype.element_ty) << bits) | tokens, mask=inside)


@triton.jit(do_not_specialize=CHANGING)
def _forward(
    query,
    value,
    order,
    counts,
    slopes,
    normalisers,
    sums,
    target,
    query_strides,
    value_strides,
    target_strides,
    turn,
    heads,
    rounds,
    length,
    bits,
    seed,
    SCALE: tl.constexpr,
    CHUNK: tl.constexpr,
    MASKED: tl.constexpr,
    DROPPED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Add a round's output of a tile of tokens, and write its normalisers: the log-sum-exp of the scores, base 2."""
    sequence, first = tile_of(length, ROWS)
    real = count_of(counts, sequence, heads, length)
    line = (sequence.to(tl.int64) * rounds + turn) * length
    stream = sequence * rounds + turn
    query = start_of(query, query_strides, sequence, heads)
    value = start_of(value, value_strides, sequence, heads)
    slope = slope_of(slopes, sequence, heads)
    BIASED: tl.constexpr = slopes is not None
    ranks = first + tl.arange(0, ROWS)
    packed = tl.load(order + line + ranks, mask=ranks < length, other=0)
    tokens = _token(packed, bits)
    queries = load_rows(query, query_strides[2], tokens, ranks < real, WIDTH, PADDED)
    highest = tl.full([ROWS], ITSELF, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, PADDED], tl.float32)
    low, high = _window(first, real, CHUNK, ROWS)
    for start in range(low, high, COLUMNS):
        seen_ranks = start + tl.arange(0, COLUMNS)
        seen_packed = tl.load(order + line + seen_ranks, mask=seen_ranks < high, other=0)
        seen_tokens = _token(seen_packed, bits)
        keys = load_rows(query, query_strides[2], seen_tokens, seen_ranks < high, WIDTH, PADDED)
        values = load_rows(value, value_strides[2], seen_tokens, seen_ranks < high, WIDTH, PADDED)
        seen = (keys, seen_ranks, seen_packed)
        scores = _scores((queries, ranks, packed), seen, high, bits, slope, BIASED, SCALE, CHUNK, MASKED, ROWS)
        higher = tl.maximum(highest, tl.max(scores, 1))
        shrink = tl.exp2(highest - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * shrink + tl.sum(weights, 1)
        if DROPPED:
            kept, _ = _drawn(seed, ranks[:, None], seen_ranks[None, :], stream, DROPPED)
            weights = tl.where(kept, weights, 0.0)
        mixed = product(weights.to(values.dtype), values, mixed * shrink[:, None])
        highest = higher
    total = tl.maximum(total, 1.0)  # as it is with any key: the one of the highest score has the weight 1
    mixed *= tl.where(ranks < real, _share(DROPPED) / (total * rounds), 0.0)[:, None]
    _add(sums, target, target_strides, sequence, heads, tokens, ranks < length, mixed, WIDTH, PADDED, FIRST)
    normaliser = tl.where(ranks < real, highest + tl.log2(total), float("inf"))  # padding sees with weight 0
    tl.store(normalisers + line + ranks, normaliser, mask=ranks < length)


@triton.jit(do_not_specialize=CHANGING)
def _means(
    query,
    value,
    gradient,
    order,
    counts,
    slopes,
    normalisers,
    means,
    query_strides,
    value_strides,
    gradient_strides,
    heads,
    rounds,
    length,
    bits,
    seed,
    SCALE: tl.constexpr,
    CHUNK: tl.constexpr,
    MASKED: tl.constexpr,
    DROPPED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write the mean of the gradients of a token's weights, weighted by them; the softmax subtracts it from each."""
    stream, first = tile_of(length, ROWS)  # a sequence and round
    sequence = stream // rounds
    real = count_of(counts, sequence, heads, length)
    line = stream.to(tl.int64) * length
    query = start_of(query, query_strides, sequence, heads)
    value = start_of(value, value_strides, sequence, heads)
    gradient = start_of(gradient, gradient_strides, sequence, heads)
    slope = slope_of(slopes, sequence, heads)
    BIASED: tl.constexpr = slopes is not None
    ranks = first + tl.arange(0, ROWS)
    packed = tl.load(order + line + ranks, mask=ranks < length, other=0)
    tokens = _token(packed, bits)
    queries = load_rows(query, query_strides[2], tokens, ranks < real, WIDTH, PADDED)
    gradients = load_rows(gradient, gradient_strides[2], tokens, ranks < real, WIDTH, PADDED)
    normaliser = tl.load(normalisers + line + ranks, mask=ranks < length, other=float("inf"))
    mean = tl.zeros([ROWS], tl.float32)
    low, high = _window(first, real, CHUNK, ROWS)
    for start in range(low, high, COLUMNS):
        seen_ranks = start + tl.arange(0, COLUMNS)
        seen_packed = tl.load(order + line + seen_ranks, mask=seen_ranks < high, other=0)
        seen_tokens = _token(seen_packed, bits)
        keys = load_rows(query, query_strides[2], seen_tokens, seen_ranks < high, WIDTH, PADDED)
        values = load_rows(value, value_strides[2], seen_tokens, seen_ranks < high, WIDTH, PADDED)
        seen = (keys, seen_ranks, seen_packed)
        scores = _scores((queries, ranks, packed), seen, high, bits, slope, BIASED, SCALE, CHUNK, MASKED, ROWS)
        of_weights = product(gradients, tl.trans(values))
        if DROPPED:
            kept, _ = _drawn(seed, ranks[:, None], seen_ranks[None, :], stream, DROPPED)
            of_weights = tl.where(kept, of_weights, 0.0)
        mean += tl.sum(tl.exp2(scores - normaliser[:, None]) * of_weights, 1)
    tl.store(means + line + ranks, mean * _share(DROPPED), mask=ranks < length)


@triton.jit(do_not_specialize=CHANGING)
def _backward(
    query,
    value,
    gradient,
    order,
    counts,
    slopes,
    normalisers,
    means,
    query_sums,
    query_target,
    value_sums,
    value_target,
    query_strides,
    value_strides,
    gradient_strides,
    of_query_strides,
    of_value_strides,
    turn,
    heads,
    rounds,
    length,
    bits,
    seed,
    SCALE: tl.constexpr,
    CHUNK: tl.constexpr,
    MASKED: tl.constexpr,
    DROPPED: tl.constexpr,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Add a round's gradients of a tile of tokens, as queries and as keys of the tokens that they see."""
    sequence, first = tile_of(length, ROWS)
    real = count_of(counts, sequence, heads, length)
    line = (sequence.to(tl.int64) * rounds + turn) * length
    stream = sequence * rounds + turn
    query = start_of(query, query_strides, sequence, heads)
    value = start_of(value, value_strides, sequence, heads)
    gradient = start_of(gradient, gradient_strides, sequence, heads)
    slope = slope_of(slopes, sequence, heads)
    BIASED: tl.constexpr = slopes is not None
    ranks = first + tl.arange(0, ROWS)
    packed = tl.load(order + line + ranks, mask=ranks < length, other=0)
    tokens = _token(packed, bits)
    queries = load_rows(query, query_strides[2], tokens, ranks < real, WIDTH, PADDED)
    values = load_rows(value, value_strides[2], tokens, ranks < real, WIDTH, PADDED)
    gradients = load_rows(gradient, gradient_strides[2], tokens, ranks < real, WIDTH, PADDED)
    normaliser = tl.load(normalisers + line + ranks, mask=ranks < length, other=float("inf"))
    mean = tl.load(means + line + ranks, mask=ranks < length, other=0.0)
    of_query = tl.zeros([ROWS, PADDED], tl.float32)
    of_value = tl.zeros([ROWS, PADDED], tl.float32)
    low, high = _window(first, real, CHUNK, ROWS)
    for start in range(low, high, COLUMNS):
        seen_ranks = start + tl.arange(0, COLUMNS)
        is_seen = seen_ranks < high
        seen_packed = tl.load(order + line + seen_ranks, mask=is_seen, other=0)
        seen_tokens = _token(seen_packed, bits)
        seen_queries = load_rows(query, query_strides[2], seen_tokens, is_seen, WIDTH, PADDED)
        seen_values = load_rows(value, value_strides[2], seen_tokens, is_seen, WIDTH, PADDED)
        seen_gradients = load_rows(gradient, gradient_strides[2], seen_tokens, is_seen, WIDTH, PADDED)
        seen_normaliser = tl.load(normalisers + line + seen_ranks, mask=is_seen, other=float("inf"))
        seen_mean = tl.load(means + line + seen_ranks, mask=is_seen, other=0.0)
        seen = (seen_queries, seen_ranks, seen_packed)
        scores = _scores((queries, ranks, packed), seen, high, bits, slope, BIASED, SCALE, CHUNK, MASKED, ROWS)
        if DROPPED:
            kept, kept_as_key = _drawn(seed, ranks[:, None], seen_ranks[None, :], stream, DROPPED)
        # As queries.
        weights = tl.exp2(scores - normaliser[:, None])
        of_weights = product(gradients, tl.trans(seen_values))
        if DROPPED:
            of_weights = tl.where(kept, of_weights * _share(DROPPED), 0.0)
        of_scores = weights * (of_weights - mean[:, None])
        # As keys.
        weights = tl.exp2(scores - seen_normaliser[None, :])
        of_weights = product(values, tl.trans(seen_gradients))
        if DROPPED:
            of_weights = tl.where(kept_as_key, of_weights * _share(DROPPED), 0.0)
        of_scores += weights * (of_weights - seen_mean[None, :])
        if DROPPED:
            weights = tl.where(kept_as_key, weights, 0.0)
        of_value = product(weights.to(gradients.dtype), seen_gradients, of_value)
        of_query = product(of_scores.to(queries.dtype), seen_queries, of_query)
    shown = (ranks < real)[:, None]
    of_query = tl.where(shown, of_query * (SCALE * 0.6931471805599453 / rounds), 0.0)  # scores are base 2
    of_value = tl.where(shown, of_value * (_share(DROPPED) / rounds), 0.0)
    inside = ranks < length
    _add(query_sums, query_target, of_query_strides, sequence, heads, tokens, inside, of_query, WIDTH, PADDED, FIRST)
    _add(value_sums, value_target, of_value_strides, sequence, heads, tokens, inside, of_value, WIDTH, PADDED, FIRST)


@triton.jit
def _scores(
    left_tile,
    right_tile,
    high,
    bits,
    slope,
    BIASED: tl.constexpr,
    SCALE: tl.constexpr,
    CHUNK: tl.constexpr,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Return the scores of two tiles of tokens, base 2; symmetric in queries and keys.

    A tile is rows, their ranks, and their packed buckets and tokens. Scores of padding on the left mean nothing.
    """
    left, left_ranks, left_packed = left_tile
    right, right_ranks, right_packed = right_tile
    scores = product(left, tl.trans(right)) * SCALE + tl.where(right_ranks < high, 0.0, float("-inf"))[None, :]
    if BIASED:
        left_tokens, right_tokens = _token(left_packed, bits), _token(right_packed, bits)
        scores -= slope * tl.abs(left_tokens[:, None] - right_tokens[None, :])
    if CHUNK % ROWS:  # the tile reaches into more than one chunk
        near = tl.abs((left_ranks // CHUNK)[:, None] - (right_ranks // CHUNK)[None, :]) <= 1
        scores = tl.where(near, scores, float("-inf"))
    if MASKED:
        alike = (left_packed >> bits)[:, None] == (right_packed >> bits)[None, :]
        scores = tl.where(alike, scores, float("-inf"))
    return tl.where(left_ranks[:, None] == right_ranks[None, :], ITSELF, scores)


@triton.jit
def _window(first, real, CHUNK: tl.constexpr, ROWS: tl.constexpr):
    """Return the first rank that a tile of tokens sees, and the one after the last."""
    low = tl.maximum(first // CHUNK - 1, 0) * CHUNK
    high = tl.minimum(((first + ROWS - 1) // CHUNK + 2) * CHUNK, real)
    return low, tl.where(first < real, high, 0)


@triton.jit
def _token(packed, bits):
    """Return the tokens of packed buckets and tokens."""
    return packed & ((1 << bits) - 1)


@triton.jit
def _add(
    sums,
    target,
    strides,
    sequence,
    heads,
    tokens,
    inside,
    rows,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    FIRST: tl.constexpr,
):
    """Write `rows`, added to the sums of the rounds before, as the rows of `tokens` of a sequence."""
    sums, target = start_of(sums, strides, sequence, heads), start_of(target, strides, sequence, heads)
    columns = tl.arange(0, PADDED)
    offsets = (tokens.to(tl.int64) * strides[2])[:, None] + columns[None, :]
    mask = inside[:, None] & (columns < WIDTH)[None, :]
    if not FIRST:
        rows += tl.load(sums + offsets, mask=mask, other=0.0)
    tl.store(target + offsets, rows.to(target.dtype.element_ty), mask=mask)


@triton.jit
def _drawn(seed, left, right, stream, DROPPED: tl.constexpr):
    """Draw whether the weights of pairs of tokens are kept: as `left` sees `right`, and as `right` sees `left`.

    By their ranks, so that every kernel draws the same, and a pair draws once for both. Seven turns of Philox 4x32 pass
    all tests of BigCrush (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", table 2).
    """
    forth, back, _, _ = tl.philox(seed, tl.minimum(left, right), tl.maximum(left, right), stream, 0, n_rounds=7)
    ahead = left < right
    return tl.where(ahead, forth, back) >= DROPPED, tl.where(ahead, back, forth) >= DROPPED


@triton.jit
def _share(DROPPED: tl.constexpr):
    """Return the factor of weights that are kept."""
    return 4294967296.0 / (4294967296 - DROPPED)
