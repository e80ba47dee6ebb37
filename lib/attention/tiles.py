"""Tiles of tokens in Triton kernels: which tokens a program takes, and how it loads and multiplies their rows.

Shapes: B batch, H heads, N tokens, d head width. A sequence is one head of one row of a batch, B H in all.
"""

import os

import triton
import triton.language as tl
from torch import Tensor

from lib.attention.kernels import INTERPRETED, Launch

EMULATED = tl.constexpr(os.environ.get(INTERPRETED) == "1")


def rows_apart(rows: Tensor) -> Tensor:
    """Return `rows` [B, H, N, d], copied if the numbers of a row do not lie side by side."""
    return rows if rows.stride(-1) == 1 else rows.contiguous()


def padded_width(width: int) -> int:
    """Return the width of a head as the kernels hold it: a power of two that matrix units can take."""
    return max(16, triton.next_power_of_2(width))


def tiles_of(query: Tensor, how: Launch) -> int:
    """Return how many programs take a tile of tokens each."""
    batch, heads, length, _ = query.shape
    return triton.cdiv(length, how.rows) * batch * heads


@triton.jit
def product(left, right, sums=None):
    """Return the product of two tiles in float32, added to `sums` if there are some."""
    if EMULATED:  # by the interpreter, which would multiply the bits of bfloat16
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, sums, input_precision="ieee")


@triton.jit
def tile_of(length, ROWS: tl.constexpr):
    """Return the number of this program's sequence, and the first token of its tile."""
    tiles = tl.cdiv(length, ROWS)
    return tl.program_id(0) // tiles, tl.program_id(0) % tiles * ROWS


@triton.jit
def count_of(counts, sequence, heads, length):
    """Return the number of real tokens of a sequence."""
    if counts is None:
        return length
    else:
        return tl.load(counts + sequence // heads).to(tl.int32)


@triton.jit
def start_of(rows, strides, sequence, heads):
    """Return where the rows of a sequence start in [B, H, N, d]."""
    return rows + (sequence // heads).to(tl.int64) * strides[0] + (sequence % heads).to(tl.int64) * strides[1]


@triton.jit
def slope_of(slopes, sequence, heads):
    """Return the slope of ALiBi of a sequence's head, base 2."""
    if slopes is None:
        return 0.0
    else:
        return tl.load(slopes + sequence % heads) * 1.4426950408889634


@triton.jit
def load_rows(start, stride, tokens, shown, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """Return the rows of `tokens`; zeros for those that are not shown."""
    columns = tl.arange(0, PADDED)
    places = (start + tokens.to(tl.int64) * stride)[:, None] + columns[None, :]
    if WIDTH == PADDED:
        return tl.load(places, mask=shown[:, None], other=0.0)
    else:
        return tl.load(places, mask=shown[:, None] & (columns < WIDTH)[None, :], other=0.0)
