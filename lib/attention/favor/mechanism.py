"""FAVOR+ attention by torch's operations, on every device: positive random features in place of the softmax kernel.

Linear in N in time and memory. `kernels.py` is faster on GPUs in half precision; both must equal the reference of the
tests.

Shapes: B batch, H heads, N tokens, d head width, M columns of the feature map, D rows drawn.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import Attention
from lib.attention.favor.settings import Settings
from lib.core.randomness import derive_seed

FEATURES = {"cpu": 2**18, "gpu": 2**27}
"""Number of features in memory at a time: on a CPU they fit the cache of a core, on a GPU they keep it busy."""


class Mechanism(Attention):
    """Attention with the kernel phi(q) . phi(k), both scaled by d^(-1/4).

    `phi` = `exp`: the unbiased cosh estimator of the softmax kernel; D = M / 2 draws w, each in a column exp(w.x -
    |x|^2/2) and one exp(-w.x - |x|^2/2), over sqrt(M). Stabilised, each key column is divided by its sum over
    the row's real tokens, which moves to the queries, and each query by its sum over the columns. Both cancel in the
    result and leave the normaliser at 1: nothing overflows or vanishes, and no `eps` is needed. Without
    stabiliser, `eps` is weighed against the sum of the kernel itself, and inputs of large norm overflow.
    `features` = `saderf`: the same, for queries and keys with each dimension rescaled (their product stays), and
    with exp(B w.x + A |w|^2 - |x|^2/2), B^2 = 1 - 4 A, in each column. Scales and A are those of least variance for the
    real queries and keys of a row and head. Any are unbiased, and they have no gradient.
    `phi` = `relu`: max(w.x, 0) + eps, with D = M draws; `eps` is added to the normaliser too.
    `phi` = `elu`: ELU(x) + 1 on the d dimensions, no draws; `eps` is added to the normaliser.

    The draws are the persistent buffer `features`, a function of (seed, layer) from initialisation on. With a
    `redraw_interval` I they are, from step I on, a function of (seed, layer, last multiple of I at or before
    the optimiser step), however that step was reached; so a resumed run has those of an uninterrupted one.

    Source:
        Choromanski et al. 2021, "Rethinking Attention with Performers", sections 2.3 and 2.4 (its feature map with
        pairs, `SM^{hyp+}`); the study reproduced, equations 3.27 to 3.56. Performer adds `eps` to the `exp`
        features and takes one maximum over all key columns, which lets small features vanish. `saderf`: Likhosherstov
        et al. 2023, "FAVOR#: Sharp Attention Kernel Approximations via New Classes of Positive Random Features", with
        the A of Likhosherstov et al. 2022, "Chefs' Random Tables"; both without the pairs.
    """

    settings: Settings
    features: Tensor

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._drawn_at: int | None = None
        settings = self.settings
        # Stabilised features vanish at padding, gradients and all.
        vanish = settings.phi == "exp" and settings.stabilize and settings.features == "positive"
        self.needs_clean_padding = not vanish
        if self.settings.phi != "elu":
            shape = (self.num_heads, self.settings.draws, self.head_size)
            self.register_buffer("features", torch.empty(shape))  # [H, D, d]
            self.reset_features()

    @torch.no_grad()
    def reset_features(self, *step: int) -> None:
        """Fill the features with a draw that belongs to (seed, layer, *step), if there are any."""
        self._drawn_at = step[0] if step else None
        if self.settings.phi == "elu":
            return
        generator = torch.Generator("cpu").manual_seed(derive_seed("favor", self.seed, self.layer, *step))
        draw = gaussian_orthogonal if self.settings.ortho_features else gaussian
        self.features.copy_(draw(*self.features.shape, generator=generator))

    def set_step(self, step: int) -> None:
        """Redraw the features if a multiple of the redraw interval has been reached since they were drawn."""
        super().set_step(step)
        interval = self.settings.redraw_interval
        if interval and step >= interval and self._drawn_at != step - step % interval:
            self.reset_features(step - step % interval)

    def hides_padding(self, rows: Tensor) -> bool:
        """See `Attention.hides_padding`."""
        return not self.needs_clean_padding and self.by_triton(rows)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; torch's operations compute in float32 at least, also under autocast.

        Only stabilised `exp` features that are not fitted have Triton kernels; the others are torch's operations
        whatever is asked for.
        """
        settings, scale = self.settings, self.head_size**-0.25
        with torch.autocast(query.device.type, enabled=False):
            if settings.features == "saderf":
                self.computed_by = "torch"
                query, key, draws, bias = fitted(query, key, self.features, real, scale)
                return _AttendByTwoSoftmaxes.apply(query, key, value, draws, real, scale, bias)
            if settings.phi == "exp" and settings.stabilize:
                if self.by_triton(query):
                    from lib.attention.favor.kernels import AttendByTriton  # needs the package triton

                    return AttendByTriton.apply(query, key, value, self.features, real, self.pads_queries, scale)
                return _AttendByTwoSoftmaxes.apply(query, key, value, self.features, real, scale, None)
            self.computed_by = "torch"
            precision = torch.promote_types(value.dtype, torch.float32)
            query_features, key_features = (self._map(rows.to(precision) * scale) for rows in (query, key))
            if real is not None:
                key_features = key_features.masked_fill(~real[:, None, :, None], 0)
            summary = key_features.transpose(-1, -2) @ value.to(precision)  # [B, H, M, d]
            normaliser = query_features @ key_features.sum(-2)[..., None]  # [B, H, N, 1]
            return (query_features @ summary) / (normaliser + settings.eps)

    def _map(self, rows: Tensor) -> Tensor:
        """Return the features of `rows` [B, H, N, d]: [B, H, N, M]."""
        settings = self.settings
        if settings.phi == "elu":
            return functional.elu(rows) + 1
        projection = rows @ self.features.to(rows.dtype).transpose(-1, -2)  # [B, H, N, D]
        if settings.phi == "relu":
            return functional.relu(projection) + settings.eps
        offset = -rows.square().sum(-1, keepdim=True) / 2
        exponents = torch.cat([projection + offset, offset - projection], dim=-1)
        return exponents.exp() / exponents.shape[-1] ** 0.5


class _AttendByTwoSoftmaxes(torch.autograd.Function):
    """Attention with stabilised `exp` features: two softmaxes and no division.

    The kernel is exp(E(q)) exp(E(k))^T with exponents E [N, M]. Let A be exp(E(k)) with every column divided by its
    sum over the tokens, z the logarithms of these sums, and P the softmax over the columns of E(q) + z. Then P A^T is
    the kernel with every row divided by its sum, and the output P (A^T v). What is the same in all exponents of a
    query cancels, so its norm is not needed.

    Keeps its arguments, z and A^T v for the backward pass, which computes the features again, block by block.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        draws: Tensor,
        real: Tensor | None,
        scale: float,
        bias: Tensor | None,
    ) -> Tensor:
        """Return the output [B, H, N, d], in float32 at least.

        Args:
            ctx: autograd's.
            query: [B, H, N, d].
            key: as `query`.
            value: as `query`.
            draws: [H, D, d], or of each sequence [BH, D, d]; without gradient.
            real: [B, N], true at real tokens; None = all real.
            scale: factor of queries and keys.
            bias: logarithms of the weights of columns [BH, 1, M]; None = all are 0. Without gradient.
        """
        queries, keys, values = (_sequences(rows) for rows in (query, key, value))
        offsets = _offsets(keys, real, scale)
        columns = 2 * draws.shape[1]
        sums = keys.new_empty(len(keys), 1, columns)  # z
        summaries = keys.new_empty(len(keys), columns, keys.shape[-1])  # A^T v
        output = torch.empty_like(values)
        for part, projection, blocks in _blocks(keys, draws, scale):
            # A row without real tokens has no peak: the lowest number keeps its features at exp(-inf) = 0.
            peak = keys.new_full((1,), torch.finfo(keys.dtype).min)
            total, summary = torch.zeros_like(sums[part]), torch.zeros_like(summaries[part])
            for block in blocks:
                exponents = _exponents(keys[part, block], projection, offsets[part, block])
                raised = torch.maximum(peak, exponents.amax(1, keepdim=True))  # [G, 1, M]
                features = exponents.sub_(raised).exp_()
                decay = (peak - raised).exp_()
                total.mul_(decay).add_(features.sum(1, keepdim=True))
                summary.mul_(decay.mT).baddbmm_(features.mT, values[part, block])
                peak = raised
            total.clamp_min_(1)  # it is 1 at least, but for a row without real tokens
            sums[part] = peak + total.log()
            summaries[part] = summary / total.mT
            read = sums[part] if bias is None else sums[part] + bias[part]
            for block in blocks:
                weights = _exponents(queries[part, block], projection, read).softmax(-1)
                torch.bmm(weights, summaries[part], out=output[part, block])
        ctx.save_for_backward(query, key, value, draws, real, sums, summaries, bias)
        ctx.scale = scale
        return output.unflatten(0, query.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of query, key and value, [B, H, N, d] each."""
        query, key, value, draws, real, sums, summaries, bias = ctx.saved_tensors
        with torch.autocast(gradient.device.type, enabled=False):
            queries, keys, values, gradients = (_sequences(rows) for rows in (query, key, value, gradient))
            offsets = _offsets(keys, real, ctx.scale)
            of_queries, of_keys, of_values = (torch.empty_like(rows) for rows in (queries, keys, values))
            for part, projection, blocks in _blocks(keys, draws, ctx.scale):
                summary = summaries[part]
                of_summary, of_sums = torch.zeros_like(summary), torch.zeros_like(sums[part])
                read = sums[part] if bias is None else sums[part] + bias[part]
                for block in blocks:
                    weights = _exponents(queries[part, block], projection, read).softmax(-1)
                    of_weights = gradients[part, block] @ summary.mT
                    of_exponents = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
                    of_summary.baddbmm_(weights.mT, gradients[part, block])
                    of_sums += of_exponents.sum(1, keepdim=True)
                    positive, negative = of_exponents.chunk(2, dim=-1)
                    torch.bmm(positive.sub_(negative), projection, out=of_queries[part, block])
                # d(A^T v) and dz reach E(k) through both the features and their sums.
                shift = of_sums - (summary * of_summary).sum(-1)[:, None]  # [G, 1, M]
                for block in blocks:
                    features = _exponents(keys[part, block], projection, offsets[part, block]).sub_(sums[part]).exp_()
                    of_exponents = torch.baddbmm(shift, values[part, block], of_summary.mT).mul_(features)
                    torch.bmm(features, of_summary, out=of_values[part, block])
                    positive, negative = of_exponents.chunk(2, dim=-1)
                    torch.bmm(positive.sub(negative), projection, out=of_keys[part, block])
                    of_offsets = of_exponents.sum(-1, keepdim=True)
                    of_keys[part, block].addcmul_(keys[part, block], of_offsets, value=-(ctx.scale**2))
            found = zip((of_queries, of_keys, of_values), (query, key, value), strict=True)
            of_rows = [rows.unflatten(0, given.shape[:2]).to(given.dtype) for rows, given in found]
            return *of_rows, None, None, None, None


def fitted(
    query: Tensor, key: Tensor, draws: Tensor, real: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return rescaled queries and keys [B, H, N, d], scaled draws [BH, D, d] and logarithms of weights [BH, 1, 2 D].

    Args:
        query: [B, H, N, d].
        key: as `query`, zeros at padding.
        draws: [H, D, d].
        real: [B, N], true at real tokens; None = all real.
        scale: factor of queries and keys that is still to come.
    """
    query, key = (rows.to(torch.promote_types(rows.dtype, torch.float32)) for rows in (query, key))
    with torch.no_grad():
        queries, count = query, torch.full((1, 1, 1), query.shape[2], device=query.device)
        if real is not None:
            queries = query.masked_fill(~real[:, None, :, None], 0)
            count = real.sum(-1).clamp(min=1)[:, None, None]
        least = torch.finfo(query.dtype).tiny
        squares = [rows.square().sum(2).clamp(min=least) for rows in (queries, key)]  # [B, H, d]
        factor = (squares[1] / squares[0]) ** 0.25
        means = [queries.sum(2) * factor / count, key.sum(2) / factor / count]
        total = squares[0] * factor.square() + squares[1] / factor.square()
        # The mean over all pairs of |q + k|^2.
        size = (total / count + 2 * means[0] * means[1]).sum(-1).clamp(min=0) * scale**2  # [B, H]
        width = query.shape[-1]
        slope = 2 * size + width
        inverse = (slope + (slope.square() + 8 * size * width).sqrt()) / (2 * width)  # 1 / rho
        quadratic = (1 - inverse) / 8  # A
        draws = draws.to(query.dtype)
        weights = 2 * quadratic[..., None] * draws.square().sum(-1)  # [B, H, D]
        draws = (1 - 4 * quadratic).sqrt()[..., None, None] * draws
        bias = torch.cat([weights, weights], -1).flatten(0, 1)[:, None]
    return query * factor[:, :, None], key / factor[:, :, None], draws.flatten(0, 1), bias


def _sequences(rows: Tensor) -> Tensor:
    """Return `rows` [B, H, N, d] in float32 at least: [BH, N, d]."""
    return rows.to(torch.promote_types(rows.dtype, torch.float32)).flatten(0, 1)


def _offsets(keys: Tensor, real: Tensor | None, scale: float) -> Tensor:
    """Return the terms [BH, N, 1] of the exponents of `keys` [BH, N, d] that all columns have; -inf at padding."""
    offsets = keys.norm(dim=-1).square_().mul_(-(scale**2) / 2)
    if real is not None:
        offsets = offsets.unflatten(0, (len(real), -1)).masked_fill(~real[:, None], float("-inf")).flatten(0, 1)
    return offsets[..., None]


def _blocks(rows: Tensor, draws: Tensor, scale: float) -> Iterator[tuple[slice, Tensor, list[slice]]]:
    """Yield sequences of `rows` [BH, N, d] with their scaled draws [G, D, d], and blocks of their tokens.

    The number of features of a sequence and a block together suits the device.
    """
    sequences, length, _ = rows.shape
    features = FEATURES["cpu"] * torch.get_num_threads() if rows.device.type == "cpu" else FEATURES["gpu"]
    tokens = max(1, features // (2 * draws.shape[1]))
    draws = draws.to(rows.dtype) * scale
    blocks = [slice(start, start + tokens) for start in range(0, length, tokens)]
    size = max(1, tokens // length)
    for start in range(0, sequences, size):
        part = torch.arange(start, min(start + size, sequences), device=rows.device)
        yield slice(start, start + size), draws[part % len(draws)], blocks


def _exponents(rows: Tensor, draws: Tensor, offsets: Tensor) -> Tensor:
    """Return the products of `rows` [G, n, d] and `draws` [G, D, d], and minus these, plus `offsets`: [G, n, 2 D].

    `offsets` are of rows [G, n, 1] or of columns [G, 1, 2 D].
    """
    products = rows @ draws.mT
    exponents = products.new_empty(*products.shape[:-1], 2 * products.shape[-1])
    positive, negative = exponents.chunk(2, dim=-1)
    of_positive, of_negative = offsets.expand(-1, -1, exponents.shape[-1]).chunk(2, dim=-1)
    torch.add(of_positive, products, out=positive)
    torch.sub(of_negative, products, out=negative)
    return exponents


def gaussian(heads: int, rows: int, width: int, *, generator: torch.Generator) -> Tensor:
    """Return independent standard normal rows, [heads, rows, width]."""
    return torch.randn(heads, rows, width, generator=generator, device="cpu")


def gaussian_orthogonal(heads: int, rows: int, width: int, *, generator: torch.Generator) -> Tensor:
    """Return standard normal rows, [heads, rows, width], orthogonal within each block of `width` rows of a head.

    Source:
        Choromanski et al. 2021, section 2.4: directions of a random rotation, norms of independent normal vectors.
    """
    blocks = -(-rows // width)
    square = torch.randn(heads, blocks, width, width, generator=generator, device="cpu", dtype=torch.float64)
    rotation, triangle = torch.linalg.qr(square)
    # The signs make the rotation uniformly distributed; the algorithm leaves them to chance of its own.
    rotation = rotation * triangle.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]
    norms = gaussian(heads, rows, width, generator=generator).norm(dim=-1, keepdim=True)
    return rotation.flatten(1, 2)[:, :rows].float() * norms
