"""FAVOR+ attention: positive random features in place of the softmax kernel, in time and memory linear in N.

Shapes: B batch, H heads, N tokens, d head width, M columns of the feature map, D rows drawn.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.contract import Attention
from lib.core.errors import ConfigError
from lib.core.randomness import derive_seed


class Mechanism(Attention):
    """Attention with the kernel phi(q) . phi(k), both scaled by d^(-1/4).

    `phi` = `exp`: the unbiased cosh estimator of the softmax kernel; D = M / 2 draws w, each in a column exp(w.x -
    |x|^2/2) and one exp(-w.x - |x|^2/2), over sqrt(M). Stabilised, each key column is divided by its maximum over
    the row's real tokens, which moves to the queries, and each query by its maximum over the columns. Both
    cancel in the result, and leave the normaliser at 1 or above: nothing overflows or vanishes, and `eps`, which is
    added to the normaliser, shrinks the output by at most the factor 1 / (1 + eps). Without stabiliser, `eps`
    is weighed against the sum of the kernel itself, and inputs of large norm overflow.
    `phi` = `relu`: max(w.x, 0) + eps, with D = M draws; `eps` is added to the normaliser too.
    `phi` = `elu`: ELU(x) + 1 on the d dimensions, no draws; `eps` is added to the normaliser.

    The draws are the persistent buffer `features`, a function of (seed, layer) from initialisation on. With a
    `redraw_interval` I they are, from step I on, a function of (seed, layer, last multiple of I at or before
    the optimiser step), however that step was reached; so a resumed run has those of an uninterrupted one.

    Raises:
        ConfigError: weight dropout above 0; there are no weights to drop.

    Source:
        Choromanski et al. 2021, "Rethinking Attention with Performers", sections 2.3 and 2.4 (its feature map with
        pairs, `SM^{hyp+}`); the study reproduced, equations 3.27 to 3.56. Performer adds `eps` to the `exp`
        features and takes one maximum over all key columns, which lets small features vanish.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        if self.dropout > 0:
            raise ConfigError(
                f"attention_dropout = {self.dropout}: favor never forms attention weights, so it cannot drop any. "
                "Set it to 0 for this mechanism."
            )
        self._drawn_at: int | None = None
        if self.settings.phi != "elu":
            draws = self.settings.nb_features // (2 if self.settings.phi == "exp" else 1)
            self.register_buffer("features", torch.empty(self.num_heads, draws, self.head_size))  # [H, D, d]
            self.reset_features()

    def reset_features(self) -> None:
        """Draw the features that belong to (seed, layer)."""
        self._draw()

    def set_step(self, step: int) -> None:
        """Redraw the features if a multiple of the redraw interval has been reached since they were drawn."""
        super().set_step(step)
        interval = self.settings.redraw_interval
        if interval and step >= interval and self._drawn_at != step - step % interval:
            self._draw(step - step % interval)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        with torch.autocast(query.device.type, enabled=False):
            precision = torch.promote_types(value.dtype, torch.float32)
            scale = self.head_size**-0.25
            query_features, key_features = self._map(query.to(precision) * scale, key.to(precision) * scale, real)
            summary = key_features.transpose(-1, -2) @ value.to(precision)  # [B, H, M, d]
            normaliser = query_features @ key_features.sum(-2)[..., None]  # [B, H, N, 1]
            return (query_features @ summary) / (normaliser + self.settings.eps)

    def _map(self, query: Tensor, key: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the features [B, H, N, M] of queries and keys; those of padded keys are zeros."""
        settings = self.settings
        if settings.phi == "exp":
            query_exponents, key_exponents = self._exponents(query, None), self._exponents(key, real)
            if settings.stabilize:
                # A row without real tokens has no maximum: the lowest number keeps its features at exp(-inf) = 0.
                peak = key_exponents.detach().amax(-2, keepdim=True).clamp_min(torch.finfo(key.dtype).min)
                key_exponents = key_exponents - peak  # [B, H, N, M]
                query_exponents = query_exponents + peak
                query_exponents = query_exponents - query_exponents.detach().amax(-1, keepdim=True)
            return query_exponents.exp(), key_exponents.exp()
        if settings.phi == "relu":
            query_features, key_features = (
                functional.relu(self._project(rows)) + settings.eps for rows in (query, key)
            )
        else:
            query_features, key_features = functional.elu(query) + 1, functional.elu(key) + 1
        if real is not None:
            key_features = key_features.masked_fill(~real[:, None, :, None], 0)
        return query_features, key_features

    def _exponents(self, rows: Tensor, real: Tensor | None) -> Tensor:
        """Return the logarithms [B, H, N, M] of the `exp` features of `rows`, -inf where `real` is false."""
        offset = -rows.square().sum(-1, keepdim=True) / 2 - math.log(self.settings.nb_features) / 2
        if real is not None:
            offset = offset.masked_fill(~real[:, None, :, None], float("-inf"))
        projection = self._project(rows)
        return torch.cat([projection, -projection], dim=-1) + offset

    def _project(self, rows: Tensor) -> Tensor:
        """Return the products [B, H, N, D] of `rows` with the draws."""
        return rows @ self.features.to(rows.dtype).transpose(-1, -2)

    @torch.no_grad()
    def _draw(self, *step: int) -> None:
        """Fill the features with a draw that belongs to (seed, layer, *step), if there are any."""
        self._drawn_at = step[0] if step else None
        if self.settings.phi == "elu":
            return
        generator = torch.Generator("cpu").manual_seed(derive_seed("favor", self.seed, self.layer, *step))
        draw = gaussian_orthogonal if self.settings.ortho_features else gaussian
        self.features.copy_(draw(*self.features.shape, generator=generator))


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
