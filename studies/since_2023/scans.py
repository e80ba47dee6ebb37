"""Scans of a text: a matrix that decays at each token, takes it in and is read, in chunks; linear in the length.

Shapes: B batch, H heads, N tokens, d head width; G sequences, C chunks of Q tokens.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


def both_ways(
    scan: Callable[..., Tensor], real: Tensor | None, query: Tensor, *written: Tensor, own: bool, size: int
) -> Tensor:
    """Return the sum of a scan from the first token on and one from the last: q_t (S_t + S'_{t+1}).

    The second state of a token, S', has not yet taken it in, so no token counts twice. Both scans run as one batch.
    Padding passes a state on unchanged. The backward pass computes the scans again, so that little is kept for it.

    Args:
        scan: `gated_scan` or `delta_scan`.
        real: [B, N], true at real tokens; None = all real.
        query: [B, H, N, d].
        written: the other arguments of the scan, [B, H, N, ..] or [2, B, H, N, ..] for each direction: keys and values
            with zeros at padding, logarithms of decays, and the strength of a delta rule.
        own: whether the first state has taken in the token; otherwise it is S_{t-1}.
        size: the most tokens of a chunk, raised to a power of two; changes no result.

    Returns:
        [B, H, N, d].
    """
    key, value, log_decay, *strength = written
    length = query.shape[2]
    size = 1 << (min(size, length) - 1).bit_length()
    if real is not None:
        log_decay = log_decay.masked_fill(~real[:, None, :, None], 0)

    def both(query: Tensor, *written: Tensor) -> Tensor:
        pairs = (each.expand(2, *query.shape[:3], -1).unbind() for each in written)
        turned = (torch.stack([first, second.flip(2)]) for first, second in pairs)
        # The state before a token is read at the last place that it has taken in, by a query that is moved there.
        reading = torch.stack([query if own else _moved(query, -1), _moved(query.flip(2), -1)])
        # Zeros behind a text leave a state as it is.
        padded = (functional.pad(each.flatten(0, 2), (0, 0, 0, -length % size)) for each in (reading, *turned))
        outputs = scan(*(each.unflatten(1, (-1, size)) for each in padded)).flatten(1, 2)[:, :length]
        before, after = outputs.unflatten(0, (2, *query.shape[:2])).unbind()
        return (before if own else _moved(before, 1)) + _moved(after, 1).flip(2)

    return _Recomputed.apply(both, query, key, value, log_decay, *strength)


class _Recomputed(torch.autograd.Function):
    """Call a function, and call it again in the backward pass, without autocast even if that runs under it."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return the function's value."""
        ctx.function = function
        ctx.save_for_backward(*rows)
        return function(*rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the rows."""
        rows = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad(), torch.autocast(gradient.device.type, enabled=False):
            return None, *torch.autograd.grad(ctx.function(*rows), rows, gradient)


def gated_scan(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor) -> Tensor:
    """Return q_t S_t of the states S_t = diag(a_t) S_{t-1} + k_t v_t^T, which begin at zero.

    Within a chunk, two neighbouring blocks are joined to one of twice their size again and again: the later tokens read
    the earlier ones at the border between them. So decays are only ever multiplied, and never divided by: none is too
    small, and no sum of logarithms loses digits to a large one.

    Args:
        query: [G, C, Q, d].
        key: as `query`.
        value: as `query`.
        log_decay: log a_t, at most 0 [G, C, Q, d], or [G, C, Q, 1] if all channels decay alike.

    Returns:
        [G, C, Q, d].

    Source:
        Yang et al. 2023, "Gated Linear Attention Transformers with Hardware-Efficient Training", equations 3 and 4, and
        section 4.3. There, blocks within a chunk are all of one size, and pairs within a block are scored one by one.
    """
    decay = log_decay.exp().unsqueeze(-2)  # [G, C, Q, 1, d], of a block from end to end
    reading, writing = query.unsqueeze(-2) * decay, key.unsqueeze(-2)  # decayed since, and until, a border of the block
    scores = (query * key).sum(-1)[..., None, None]  # [G, C, blocks, tokens, tokens]
    while scores.shape[2] > 1:
        pairs = (each.unflatten(2, (-1, 2)).unbind(3) for each in (scores, reading, writing, decay))
        (first, last), (left, right), (written, passed), (earlier, later) = pairs
        above = functional.pad(first, (0, first.shape[-1]))
        scores = torch.cat([above, torch.cat([right @ written.mT, last], -1)], -2)
        reading, writing = torch.cat([left, right * earlier], -2), torch.cat([written * later, passed], -2)
        decay = earlier * later
    reading, writing, decay, scores = (each.squeeze(2) for each in (reading, writing, decay, scores))
    taken = writing.mT @ value  # [G, C, d, d]
    states = [torch.zeros_like(taken[:, 0])]
    # Unbound at once: the gradient of an index is as long as the indexed tensor.
    for kept, new in zip(decay.mT.unbind(1)[:-1], taken.unbind(1)[:-1], strict=True):
        states.append(torch.addcmul(new, kept, states[-1]))
    return scores @ value + reading @ torch.stack(states, 1)


def delta_scan(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, strength: Tensor) -> Tensor:
    """Return q_t S_t of the states S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T, which begin at zero.

    The writes of a chunk at each token, b_t k_t r_t^T with r_t = v_t - a_t S_{t-1}^T k_t, solve a triangular system:
    r = U - W S, where S is the state before the chunk.

    Args:
        query: [G, C, Q, d].
        key: as `query`, of norm 1.
        value: as `query`.
        log_decay: log a_t, at most 0 [G, C, Q, 1].
        strength: b_t, from 0 to 1 [G, C, Q, 1].

    Returns:
        [G, C, Q, d].

    Source:
        Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", section 3.2;
        with decays Yang et al. 2024, "Gated Delta Networks", section 3.3. States are transposed.
    """
    # In float64, since sums are subtracted that one strong decay makes large; by a product, since cumulative sums on a
    # GPU differ from run to run.
    until = torch.ones(query.shape[2], query.shape[2], dtype=torch.float64, device=query.device).tril()
    passed = until @ log_decay.double()
    kept = (passed - passed.mT).clamp(max=0).to(query.dtype).exp().tril()  # [G, C, Q, Q]
    writing = key * strength
    left = writing * (passed[:, :, -1:] - passed).to(query.dtype).exp()
    since = passed.to(query.dtype).exp()
    overlaps = (key @ writing.mT * kept).tril(-1)
    width = value.shape[-1]
    given = torch.cat([value, key * since], -1)
    solved = torch.linalg.solve_triangular(overlaps, given, upper=False, unitriangular=True)  # [U, W]
    new, lost = (left.mT @ solved).split(width, -1)
    carried = torch.eye(width, dtype=query.dtype, device=query.device) * since[:, :, -1:] - lost
    states = [torch.zeros_like(new[:, 0])]
    for matrix, more in zip(carried.unbind(1)[:-1], new.unbind(1)[:-1], strict=True):
        states.append(torch.baddbmm(more, matrix, states[-1]))
    before = torch.stack(states, 1)
    residuals = solved[..., :width] - solved[..., width:] @ before
    return (query @ writing.mT * kept) @ residuals + (query * since) @ before


def _moved(rows: Tensor, places: int) -> Tensor:
    """Return `rows` [.., N, d], each moved one place on, or back if `places` is -1; zeros at the end that is left."""
    return functional.pad(rows, (0, 0, places, -places))
