"""The scan of a state-space layer by Triton kernels, which a GPU runs in place of torch's operations.

`scan.py` has the same computation in a readable form. A program takes a chunk of tokens and some of the heads, one
after the other: the product of write and read directions is the same for all heads, and their gradients are sums over
heads in a fixed order. States pass from chunk to chunk one after the other, in a kernel of their own. Backwards, the
gradients of inputs are the same scan from the other end, by the same kernels.

Products have operands of the inputs' type and float32 sums; decays and states are float32, and states are rounded only
as operands. The decay between two tokens is the exponential of a difference of cumulative sums, which one strong decay
makes large: a cumulative sum is computed in float64, and kept as the sum of two float32 numbers, so the difference has
the digits of a float32 number.

Shapes: B batch, N tokens, H heads, P width of a head, S state size, Q tokens of a chunk, C chunks. Exponents have the
base 2. Tokens are counted in the order of the scan, from the last one on if it is reversed.
"""

import os
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.attention.kernels import INTERPRETED, launch

PROGRAMS = 264
"""Programs that keep a large GPU busy, two on each of 132 processors; heads are divided until there are that many. A
constant, so that no sum depends on the GPU."""

HEADS = 16
"""Heads whose decays a program adds up."""


class Launch(NamedTuple):
    """How the kernels are launched; of each, the numbers of warps and of stages of its loop."""

    chunk: int
    """Q."""
    rows: int
    """Tokens of a program for the gradients of directions; a part of the chunk."""
    numbers: int
    """Numbers of a state that a program passes on."""
    sums: tuple[int, int]
    states: tuple[int, int]
    passing: tuple[int, int]
    outputs: tuple[int, int]
    directions: tuple[int, int]


LAUNCHES = {
    "half": Launch(64, 64, 512, (4, 1), (4, 3), (4, 6), (4, 3), (8, 2)),
    "half wide": Launch(32, 32, 512, (4, 1), (4, 2), (4, 6), (4, 2), (8, 1)),
    "single": Launch(32, 16, 512, (4, 1), (4, 2), (4, 6), (8, 2), (8, 1)),
    "single wide": Launch(16, 16, 512, (4, 1), (4, 1), (4, 6), (8, 1), (8, 1)),
}
"""Launches by type of the inputs, and whether a head or its state is wider than 64. Those of `half` spill 8 bytes
at most, with less than 60 KB of shared memory."""

_LOG2E = tl.constexpr(1.4426950408889634)
_INTERPRETED = tl.constexpr(os.environ.get(INTERPRETED) == "1")


class ScanByTriton(torch.autograd.Function):
    """The scan of `scan.py` by Triton kernels, from either end.

    Keeps its arguments and the cumulative decays, 8 bytes for each token and head; the backward pass computes states
    and products again.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, log_decay: Tensor, write: Tensor, read: Tensor, reverse: bool) -> Tensor:
        """Return the readout [B, N, H, P] in the type of `inputs`.

        Args:
            ctx: autograd's.
            inputs: [B, N, H, P], in any layout. Their type is that of the operands of products.
            log_decay: [B, N, H], finite and at most 0.
            write: [B, N, S].
            read: [B, N, S].
            reverse: whether the scan begins at the last token.
        """
        plan = _plan(inputs, write, reverse)
        passed = _add_decays(plan, log_decay)
        before = _states(plan, inputs, write, passed, backwards=False)
        outputs = _outputs(plan, inputs, write, read, passed, before, backwards=False)
        ctx.save_for_backward(inputs, log_decay, write, read, passed)
        ctx.plan = plan
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of inputs, decays and directions, in their types."""
        inputs, log_decay, write, read, passed = ctx.saved_tensors
        plan = ctx.plan
        before = _states(plan, inputs, write, passed, backwards=False)
        after = _states(plan, gradient, read, passed, backwards=True)
        of_inputs = _outputs(plan, gradient, read, write, passed, after, backwards=True)
        of_write, of_read = passed.new_empty(2, plan.groups, *write.shape)  # of each group of heads
        of_sums, of_last = passed.new_empty(3, *passed.shape[1:]), passed.new_empty(passed.shape[1:4])
        for backwards in (False, True):
            rows, own, target = (inputs, write, of_write) if backwards else (gradient, read, of_read)
            others, directions = (gradient, read) if backwards else (inputs, write)
            tensors = (rows, others, own, directions, passed, before, after, target, of_sums, of_last)
            strides = (each.stride() for each in (rows, others, own, directions, target))
            parts, how = plan.how.chunk // plan.how.rows, {"BACKWARDS": backwards, "ROWS": plan.how.rows}
            plan.launch(_directions_kernel, "directions", *tensors, *strides, parts=parts, **how)
        of_decay = torch.empty_like(log_decay, memory_format=torch.contiguous_format)
        plan.launch_on_decays(_decay_gradients_kernel, of_decay, of_sums, of_last, of_decay.stride(), passed.stride(0))
        return of_inputs, of_decay, of_write.sum(0).to(write.dtype), of_read.sum(0).to(read.dtype), None


class _Plan(NamedTuple):
    """The division of the work into programs, which depends only on shapes and types.

    Args:
        how: how kernels are launched.
        shape: B, N, H, P and S.
        chunks: C.
        groups: parts that the heads are divided into.
        reverse: whether the scan begins at the last token.
    """

    how: Launch
    shape: tuple[int, int, int, int, int]
    chunks: int
    groups: int
    reverse: bool

    def launch(self, kernel: Any, name: str, *arguments: Any, parts: int = 1, **constants: Any) -> None:
        """Start the programs of a kernel that takes a chunk, or a part of its tokens, and a group of heads."""
        batch, length, heads, width, size = self.shape
        numbers = (triton.cdiv(heads, self.groups), self.groups, heads, self.chunks, length)
        blocks = {
            "REVERSE": self.reverse,
            "CHUNK": self.how.chunk,
            "WIDTH": width,
            "SIZE": size,
            "BLOCK_WIDTH": max(16, triton.next_power_of_2(width)),
            "BLOCK_SIZE": max(16, triton.next_power_of_2(size)),
        }
        programs = batch * self.chunks * self.groups * parts
        launch(kernel, programs, *arguments, *numbers, **constants, **blocks, **self.options(name))

    def launch_on_decays(self, kernel: Any, *arguments: Any) -> None:
        """Start the programs of a kernel that takes a chunk and a block of heads, to add up along the chunk."""
        batch, length, heads, *_ = self.shape
        programs = batch * self.chunks * triton.cdiv(heads, HEADS)
        blocks = {"REVERSE": self.reverse, "CHUNK": self.how.chunk, "BLOCK_HEADS": HEADS}
        launch(kernel, programs, *arguments, heads, self.chunks, length, **blocks, **self.options("sums"))

    def options(self, name: str) -> dict[str, int]:
        """Return the options of the launch of a kernel."""
        warps, stages = getattr(self.how, name)
        return {"num_warps": warps, "num_stages": stages}


def _plan(inputs: Tensor, write: Tensor, reverse: bool) -> _Plan:
    batch, length, heads, width = inputs.shape
    size = write.shape[2]
    precision = "half" if inputs.element_size() <= 2 else "single"
    how = LAUNCHES[precision + (" wide" if max(width, size) > 64 else "")]
    chunks = triton.cdiv(length, how.chunk)
    share = triton.cdiv(heads, triton.cdiv(PROGRAMS, batch * chunks))
    return _Plan(how, (batch, length, heads, width, size), chunks, triton.cdiv(heads, max(1, share)), reverse)


def _add_decays(plan: _Plan, log_decay: Tensor) -> Tensor:
    """Return the cumulative log-decays of each chunk [2, B, C, H, Q], base 2: the sum of two float32 numbers."""
    batch, _, heads, *_ = plan.shape
    passed = log_decay.new_empty(2, batch, plan.chunks, heads, plan.how.chunk, dtype=torch.float32)
    plan.launch_on_decays(_sums_kernel, log_decay, passed, log_decay.stride(), passed.stride(0))
    return passed


def _states(plan: _Plan, rows: Tensor, directions: Tensor, passed: Tensor, *, backwards: bool) -> Tensor:
    """Return the state before each chunk [B, C, H, P, S], as the operand of products.

    Args:
        plan: the plan of the scan.
        rows: inputs [B, N, H, P].
        directions: of the rows in the state [B, N, S].
        passed: [2, B, C, H, Q].
        backwards: return the gradients of the states after each chunk instead, with the gradients of outputs as `rows`
            and the directions of the readout.
    """
    batch, _, heads, width, size = plan.shape
    new = passed.new_empty(batch, plan.chunks, heads, width, size)
    tensors = (rows, directions, passed, new, rows.stride(), directions.stride())
    plan.launch(_states_kernel, "states", *tensors, BACKWARDS=backwards)
    carried = torch.empty_like(new, dtype=rows.dtype)
    launch(
        _passing_kernel,
        batch * heads * triton.cdiv(width * size, plan.how.numbers),
        *(passed, new, carried, heads, plan.chunks),
        BACKWARDS=backwards,
        CHUNK=plan.how.chunk,
        NUMBERS=width * size,
        BLOCK=plan.how.numbers,
        STAGES=plan.options("passing")["num_stages"],
        **plan.options("passing"),
    )
    return carried


def _outputs(
    plan: _Plan, inputs: Tensor, write: Tensor, read: Tensor, passed: Tensor, carried: Tensor, *, backwards: bool
) -> Tensor:
    """Return the readout [B, N, H, P], or the gradients of inputs, whose own inputs are the gradients of the readout.

    Args:
        plan: the plan of the scan.
        inputs: [B, N, H, P].
        write: [B, N, S].
        read: [B, N, S].
        passed: [2, B, C, H, Q].
        carried: as `_states` returns it [B, C, H, P, S].
        backwards: return gradients; then `write` are the directions of the readout, and `read` those of the inputs.
    """
    outputs = torch.empty_like(inputs, memory_format=torch.contiguous_format)
    tensors = (inputs, write, read, passed, carried, outputs)
    strides = (each.stride() for each in (inputs, write, read, outputs))
    plan.launch(_outputs_kernel, "outputs", *tensors, *strides, BACKWARDS=backwards)
    return outputs


@triton.jit
def _dot(left, right, total=None):
    """Return the product of two matrices, plus `total`."""
    if _INTERPRETED:  # whose product of bfloat16 is that of the bits, read as integers
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, total, input_precision="ieee")


@triton.jit
def _places(tokens, length, REVERSE: tl.constexpr):
    """Return where tokens are in memory; outside of it, if they are beyond the last one."""
    if REVERSE:
        return (length - 1 - tokens).to(tl.int64)
    else:
        return tokens.to(tl.int64)


@triton.jit
def _rows(start, places, inside, stride, step, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return where rows begin and end [Q, BLOCK], and which numbers exist."""
    columns = tl.arange(0, BLOCK)
    pointers = start + places[:, None] * stride + columns[None] * step
    return pointers, inside[:, None] & (columns < WIDTH)[None]


@triton.jit
def _directions(tensor, row, places, inside, strides, SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Return the directions of a chunk's tokens [Q, S]."""
    start = tensor + row.to(tl.int64) * strides[0]
    pointers, there = _rows(start, places, inside, strides[1], strides[2], SIZE, BLOCK_SIZE)
    return tl.load(pointers, there, 0.0)


@triton.jit
def _of_head(tensor, row, head, places, inside, strides, WIDTH: tl.constexpr, BLOCK_WIDTH: tl.constexpr):
    """Return where the rows of a head and a chunk's tokens are [Q, P], and which numbers exist."""
    start = tensor + row.to(tl.int64) * strides[0] + head * strides[2]
    return _rows(start, places, inside, strides[1], strides[3], WIDTH, BLOCK_WIDTH)


@triton.jit
def _of_state(number, WIDTH: tl.constexpr, SIZE: tl.constexpr, BLOCK_WIDTH: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    """Return the places of a state's numbers [P, S], and which exist; `number` counts chunks and heads."""
    rows, columns = tl.arange(0, BLOCK_WIDTH)[:, None], tl.arange(0, BLOCK_SIZE)[None]
    return number * (WIDTH * SIZE) + rows * SIZE + columns, (rows < WIDTH) & (columns < SIZE)


@triton.jit
def _work(program, share, groups, heads, chunks):
    """Return row and chunk of a program, the number of its first head among all chunks, and its range of heads."""
    first = (program % groups * share).to(tl.int64)
    block = program // groups
    return block // chunks, block % chunks, block.to(tl.int64) * heads, first, tl.minimum(first + share, heads)


@triton.jit
def _to_edge(sums, count, numbers, CHUNK: tl.constexpr, TO_END: tl.constexpr):
    """Return the decay [Q] from each token to the end of its chunk, or from the beginning of the chunk to each token.

    Cumulative log-decays of the chunk begin at `sums`, their low parts `count` numbers later.
    """
    high = tl.load(sums + numbers)
    if TO_END:
        low = tl.load(sums + count + numbers)
        return tl.exp2((tl.load(sums + CHUNK - 1) - high) + (tl.load(sums + count + CHUNK - 1) - low))
    else:
        return tl.exp2(high)


@triton.jit
def _between(sums, count, rows, columns, BACKWARDS: tl.constexpr):
    """Return the decays from tokens (columns) to later ones (rows), or from rows to later columns if backwards.

    They are zero for all other pairs; `sums` and `count` as of `_to_edge`.
    """
    high, low = tl.load(sums + rows), tl.load(sums + count + rows)
    other_high, other_low = tl.load(sums + columns), tl.load(sums + count + columns)
    exponents = (high[:, None] - other_high[None]) + (low[:, None] - other_low[None])
    if BACKWARDS:
        return tl.exp2(tl.where(rows[:, None] <= columns[None], -exponents, float("-inf")))
    else:
        return tl.exp2(tl.where(rows[:, None] >= columns[None], exponents, float("-inf")))


@triton.jit(do_not_specialize=["chunks", "length"])
def _sums_kernel(
    log_decay,
    passed,
    strides,
    count,
    heads,
    chunks,
    length,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
):
    """Add up the log-decays of a chunk and a block of heads, from the first token to each."""
    blocks = tl.cdiv(heads, BLOCK_HEADS)
    block = tl.program_id(0) // blocks
    own = tl.program_id(0) % blocks * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    tokens = block % chunks * CHUNK + tl.arange(0, CHUNK)
    start = log_decay + (block // chunks).to(tl.int64) * strides[0]
    pointers = start + _places(tokens, length, REVERSE)[:, None] * strides[1] + own[None] * strides[2]
    decays = tl.load(pointers, (tokens < length)[:, None] & (own < heads)[None], 0.0)
    sums = tl.cumsum(decays.to(tl.float64), 0) * _LOG2E
    high = sums.to(tl.float32)
    low = (sums - high.to(tl.float64)).to(tl.float32)
    targets = passed + (block.to(tl.int64) * heads + own[None]) * CHUNK + tl.arange(0, CHUNK)[:, None]
    tl.store(targets, high, (own < heads)[None])
    tl.store(targets + count, low, (own < heads)[None])


@triton.jit(do_not_specialize=["share", "groups", "chunks", "length"])
def _states_kernel(
    rows,
    directions,
    passed,
    states,
    row_strides,
    direction_strides,
    share,
    groups,
    heads,
    chunks,
    length,
    BACKWARDS: tl.constexpr,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Compute the contribution of a chunk to the state after it; backwards, to the gradient of the state before it."""
    row, chunk, number, first, last = _work(tl.program_id(0), share, groups, heads, chunks)
    count = (tl.num_programs(0) // groups).to(tl.int64) * heads * CHUNK
    numbers = tl.arange(0, CHUNK)
    tokens = chunk * CHUNK + numbers
    places, inside = _places(tokens, length, REVERSE), tokens < length
    dtype: tl.constexpr = rows.dtype.element_ty
    directed = _directions(directions, row, places, inside, direction_strides, SIZE, BLOCK_SIZE).to(dtype)
    for head in range(first, last):
        kept = _to_edge(passed + (number + head) * CHUNK, count, numbers, CHUNK, not BACKWARDS)
        pointers, there = _of_head(rows, row, head, places, inside, row_strides, WIDTH, BLOCK_WIDTH)
        values = (tl.load(pointers, there, 0.0).to(tl.float32) * kept[:, None]).to(dtype)
        targets, there = _of_state(number + head, WIDTH, SIZE, BLOCK_WIDTH, BLOCK_SIZE)
        tl.store(states + targets, _dot(tl.trans(values), directed), there)


@triton.jit(do_not_specialize=["chunks"])
def _passing_kernel(
    passed,
    states,
    carried,
    heads,
    chunks,
    BACKWARDS: tl.constexpr,
    CHUNK: tl.constexpr,
    NUMBERS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Pass numbers of a head's state from chunk to chunk, and store them before each; from the last if backwards."""
    blocks: tl.constexpr = (NUMBERS + BLOCK - 1) // BLOCK
    sequence = tl.program_id(0) // blocks
    own = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    begin = (sequence // heads).to(tl.int64) * chunks * heads + sequence % heads
    state = tl.zeros([BLOCK], tl.float32)
    for step in tl.range(0, chunks, num_stages=STAGES):
        chunk = chunks - 1 - step if BACKWARDS else step
        number = begin + chunk * heads
        new = tl.load(states + number * NUMBERS + own, own < NUMBERS, 0.0)
        kept = tl.exp2(tl.load(passed + number * CHUNK + CHUNK - 1))
        tl.store(carried + number * NUMBERS + own, state.to(carried.dtype.element_ty), own < NUMBERS)
        state = state * kept + new


@triton.jit(do_not_specialize=["share", "groups", "chunks", "length"])
def _outputs_kernel(
    inputs,
    write,
    read,
    passed,
    carried,
    outputs,
    input_strides,
    write_strides,
    read_strides,
    output_strides,
    share,
    groups,
    heads,
    chunks,
    length,
    BACKWARDS: tl.constexpr,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Compute the readout at the tokens of a chunk, from each other and from the state before the chunk.

    Backwards, it computes the gradient of the inputs, from later tokens and from the state after the chunk.
    """
    row, chunk, number, first, last = _work(tl.program_id(0), share, groups, heads, chunks)
    count = (tl.num_programs(0) // groups).to(tl.int64) * heads * CHUNK
    numbers = tl.arange(0, CHUNK)
    tokens = chunk * CHUNK + numbers
    places, inside = _places(tokens, length, REVERSE), tokens < length
    dtype: tl.constexpr = outputs.dtype.element_ty
    written = _directions(write, row, places, inside, write_strides, SIZE, BLOCK_SIZE).to(dtype)
    reading = _directions(read, row, places, inside, read_strides, SIZE, BLOCK_SIZE).to(dtype)
    products = _dot(reading, tl.trans(written))
    for head in range(first, last):
        sums = passed + (number + head) * CHUNK
        pointers, there = _of_head(inputs, row, head, places, inside, input_strides, WIDTH, BLOCK_WIDTH)
        values = tl.load(pointers, there, 0.0)
        pointers, present = _of_state(number + head, WIDTH, SIZE, BLOCK_WIDTH, BLOCK_SIZE)
        state = tl.load(carried + pointers, present, 0.0)
        result = _dot(reading, tl.trans(state)) * _to_edge(sums, count, numbers, CHUNK, BACKWARDS)[:, None]
        weights = products * _between(sums, count, numbers, numbers, BACKWARDS)
        result = _dot(weights.to(dtype), values, result)
        pointers, there = _of_head(outputs, row, head, places, inside, output_strides, WIDTH, BLOCK_WIDTH)
        tl.store(pointers, result.to(dtype), there)


@triton.jit(do_not_specialize=["share", "groups", "chunks", "length"])
def _directions_kernel(
    rows,
    others,
    own_directions,
    other_directions,
    passed,
    before,
    after,
    gradients,
    of_sums,
    of_last,
    row_strides,
    other_strides,
    own_strides,
    other_direction_strides,
    gradient_strides,
    share,
    groups,
    heads,
    chunks,
    length,
    BACKWARDS: tl.constexpr,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_WIDTH: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Compute the gradients of the read directions at some tokens of a chunk, summed over a group of heads.

    Rows are the gradients of the outputs, and the others the inputs. Backwards, it is the other way about, and the
    gradients are those of the write directions.

    It also adds up the gradients of all exponents that contain the cumulative log-decay of a token: with a plus at the
    read directions, with a minus at the write directions. Exponents to the end of the chunk contain the sum of the
    whole chunk as well, and so does the factor of the state that passes through it.
    """
    parts: tl.constexpr = CHUNK // ROWS
    program = tl.program_id(0) // parts
    row, chunk, number, first, last = _work(program, share, groups, heads, chunks)
    count = (tl.num_programs(0) // parts // groups).to(tl.int64) * heads * CHUNK
    own_numbers, numbers = tl.program_id(0) % parts * ROWS + tl.arange(0, ROWS), tl.arange(0, CHUNK)
    own_tokens, tokens = chunk * CHUNK + own_numbers, chunk * CHUNK + numbers
    own_places, own_inside = _places(own_tokens, length, REVERSE), own_tokens < length
    places, inside = _places(tokens, length, REVERSE), tokens < length
    dtype: tl.constexpr = rows.dtype.element_ty
    own = _directions(own_directions, row, own_places, own_inside, own_strides, SIZE, BLOCK_SIZE).to(dtype)
    directed = _directions(other_directions, row, places, inside, other_direction_strides, SIZE, BLOCK_SIZE).to(dtype)
    products = _dot(own, tl.trans(directed))
    of_products = tl.zeros([ROWS, CHUNK], tl.float32)
    of_own = tl.zeros([ROWS, BLOCK_SIZE], tl.float32)
    for head in range(first, last):
        pointers, there = _of_head(rows, row, head, own_places, own_inside, row_strides, WIDTH, BLOCK_WIDTH)
        values = tl.load(pointers, there, 0.0)
        pointers, there = _of_head(others, row, head, places, inside, other_strides, WIDTH, BLOCK_WIDTH)
        seen = tl.load(pointers, there, 0.0)
        pointers, present = _of_state(number + head, WIDTH, SIZE, BLOCK_WIDTH, BLOCK_SIZE)
        state = tl.load((after if BACKWARDS else before) + pointers, present, 0.0)
        sums = passed + (number + head) * CHUNK
        part = _dot(values, tl.trans(seen)) * _between(sums, count, own_numbers, numbers, BACKWARDS)
        of_products += part
        # Without the exponent of a token and itself, which is 0 whatever the decays.
        total = tl.sum(tl.where(own_numbers[:, None] == numbers[None], 0.0, part * products), 1)
        part = _dot(values, state) * _to_edge(sums, count, own_numbers, CHUNK, BACKWARDS)[:, None]
        of_own += part
        # Loaded again, which takes less than keeping them in registers.
        own = _directions(own_directions, row, own_places, own_inside, own_strides, SIZE, BLOCK_SIZE).to(dtype)
        of_edge = tl.sum(part * own.to(tl.float32), 1)
        targets = of_sums + (number + head) * CHUNK + own_numbers
        if BACKWARDS:
            tl.store(targets + count, total + of_edge)
            tl.store(targets + 2 * count, of_edge)
            if tl.program_id(0) % parts == 0:
                first_state = tl.load(before + pointers, present, 0.0)
                product = tl.sum(tl.sum(first_state.to(tl.float32) * state.to(tl.float32), 1), 0)
                tl.store(of_last + number + head, product * tl.exp2(tl.load(sums + CHUNK - 1)))
        else:
            tl.store(targets, total + of_edge)
    directed = _directions(other_directions, row, places, inside, other_direction_strides, SIZE, BLOCK_SIZE).to(dtype)
    of_own = _dot(of_products.to(dtype), directed, of_own)
    start = gradients + program % groups * gradient_strides[0] + row.to(tl.int64) * gradient_strides[1]
    pointers, there = _rows(start, own_places, own_inside, gradient_strides[2], gradient_strides[3], SIZE, BLOCK_SIZE)
    tl.store(pointers, of_own, there)


@triton.jit(do_not_specialize=["chunks", "length"])
def _decay_gradients_kernel(
    of_decay,
    of_sums,
    of_last,
    strides,
    count,
    heads,
    chunks,
    length,
    REVERSE: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
):
    """Compute the gradients of the log-decays of a chunk and a block of heads, from those of their cumulative sums.

    The log-decay of a token is part of the cumulative sums from that token on, and of the sum of the whole chunk.
    """
    blocks = tl.cdiv(heads, BLOCK_HEADS)
    block = tl.program_id(0) // blocks
    own = tl.program_id(0) % blocks * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)
    numbers = tl.arange(0, CHUNK)
    tokens = block % chunks * CHUNK + numbers
    number, exists = block.to(tl.int64) * heads + own, own < heads
    sources, there = of_sums + number[None] * CHUNK + numbers[:, None], exists[None]
    sums = tl.load(sources, there, 0.0) - tl.load(sources + count, there, 0.0)
    whole = tl.load(of_last + number, exists, 0.0) + tl.sum(tl.load(sources + 2 * count, there, 0.0), 0)
    gradients = tl.cumsum(sums, 0, reverse=True) + whole[None]
    start = of_decay + (block // chunks).to(tl.int64) * strides[0]
    pointers = start + _places(tokens, length, REVERSE)[:, None] * strides[1] + own[None] * strides[2]
    tl.store(pointers, gradients, (tokens < length)[:, None] & there)
