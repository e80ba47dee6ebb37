"""Position encodings that are computed, not learned, so that nothing limits the length.

Shapes: B batch, H heads, N tokens, d width of a head or of an embedding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SINUSOIDAL_BASE = 10_000.0
"""Base of the frequencies of sinusoidal positions (Vaswani et al. 2017, section 3.5)."""


@dataclass(eq=False)
class Phases:
    """Cosines and sines of position x frequency, in float32, cached for the greatest length so far.

    They are neither a module nor a buffer: they follow from the length, so no checkpoint stores them.

    Args:
        width: dimensions to encode, two to a frequency.
        base: frequency i is base ** (-2 i / width).
        scale: factor on the phase.
        kind: how frequencies that suit some length are stretched over texts `factor` times as long; the same whatever
            the length at hand. `linear`: all are divided by `factor`. `yarn`: so are those that turn less than once
            over the original length; those that turn more than 32 times stay; in between, it moves linearly with i from
            the one to the other. And all tables are multiplied by 0.1 ln(factor) + 1.
        factor: see `kind`; at least 1.
        original_length: tokens that the frequencies suit; `yarn` alone needs it.

    Source:
        Equations 2.5 and 2.6 of the study; Vaswani et al. 2017, section 3.5. Chen et al. 2023, "Extending Context
        Window of Large Language Models via Positional Interpolation"; Peng et al. 2023, "YaRN", sections 3.2 to 3.4,
        with the limits rounded to whole i as in its code.
    """

    width: int
    base: float
    scale: float = 1.0
    kind: Literal["default", "linear", "yarn"] = "default"
    factor: float = 1.0
    original_length: int | None = None
    _tables: tuple[Tensor, Tensor] | None = field(default=None, init=False)
    _outgrown: list[tuple[Tensor, Tensor]] = field(default_factory=list, init=False)

    def __call__(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the cosines and the sines at positions 0 to `length` - 1.

        Args:
            length: tokens.
            device: where the tables are needed.

        Returns:
            Two tensors [N, ceil(d / 2)], float32.
        """
        if self._tables is None or len(self._tables[0]) < length or self._tables[0].device != device:
            if self._tables is not None:
                self._outgrown.append(self._tables)  # CUDA graphs of shorter texts read them still
            # A table made during inference mode could not take part in a later backward pass.
            with torch.inference_mode(False):
                positions = torch.arange(length, dtype=torch.float32, device=device)
                phases = self.scale * positions[:, None] * self.frequencies(device)
                magnitude = 0.1 * math.log(self.factor) + 1 if self.kind == "yarn" else 1.0
                self._tables = phases.cos() * magnitude, phases.sin() * magnitude
        cosines, sines = self._tables
        return cosines[:length], sines[:length]

    def frequencies(self, device: torch.device) -> Tensor:
        """Return the stretched frequencies, without `scale` [ceil(d / 2)], float32."""
        dimensions = torch.arange(0, self.width, 2, dtype=torch.float32, device=device)
        frequencies = self.base ** -(dimensions / self.width)
        if self.kind == "linear":
            return frequencies / self.factor
        if self.kind == "yarn":
            first = max(math.floor(self._pair_that_turns(32)), 0)
            last = min(math.ceil(self._pair_that_turns(1)), self.width - 1)
            share = ((dimensions / 2 - first) / max(last - first, 0.001)).clamp(0, 1)
            return frequencies / self.factor * share + frequencies * (1 - share)
        return frequencies

    def _pair_that_turns(self, times: int) -> float:
        """Return the fractional index of the pair with that number of turns over the original length."""
        assert self.original_length is not None
        turns_of_the_first = self.scale * self.original_length / (2 * math.pi)
        return self.width * math.log(turns_of_the_first / times, self.base) / 2


def rotate(rows: Sequence[Tensor], rotation: Tensor) -> list[Tensor]:
    """Turn each pair of consecutive dimensions of some rows by its position's phase.

    Afterwards the product of a query and a key depends on their distance alone.

    Args:
        rows: such as queries and keys, [B, H, N, d] each; H may differ.
        rotation: cosine and sine of every phase [N, d / 2, 2], in float32.

    Returns:
        The rotated rows [B, H, N, d], in their type; the arithmetic is in float32.

    Source:
        Equation 2.7 of the study; Su et al. 2021 (RoFormer), equation 34.
    """
    if not torch.compiler.is_compiling():
        return list(_Rotated.apply(rotation, *rows))
    # Compilers know no complex numbers, but make one kernel of all this.
    cosines, sines = rotation.unbind(-1)
    turned = []
    for each in rows:
        first, second = each.float().unflatten(-1, (-1, 2)).unbind(-1)
        pairs = torch.stack([first * cosines - second * sines, first * sines + second * cosines], dim=-1)
        turned.append(pairs.flatten(-2).to(each.dtype))
    return turned


class _Rotated(torch.autograd.Function):
    """Multiply pairs as complex numbers, those of all rows in one tensor, since a GPU is busy sooner than the host."""

    @staticmethod
    def forward(ctx: Any, rotation: Tensor, *rows: Tensor) -> tuple[Tensor, ...]:
        """See `rotate`."""
        ctx.save_for_backward(rotation)
        return _turned(rows, torch.view_as_complex(rotation))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the rows: turned back."""
        (rotation,) = ctx.saved_tensors
        return None, *_turned(gradients, torch.view_as_complex(rotation).conj())


def _turned(rows: Sequence[Tensor], phases: Tensor) -> tuple[Tensor, ...]:
    """Return `rows` [B, H, N, d], each pair of dimensions times its one of `phases` [N, d / 2]."""
    batch, _, length, width = rows[0].shape
    heads = [each.shape[1] for each in rows]
    # Laid out as projections are, heads behind tokens.
    turned = torch.empty(batch, length, sum(heads), width, dtype=torch.float32, device=phases.device).transpose(1, 2)
    for part, each in zip(turned.split(heads, dim=1), rows, strict=True):
        part.copy_(each)
    torch.view_as_complex(turned.unflatten(-1, (-1, 2))).mul_(phases)
    return turned.to(rows[0].dtype).split(heads, dim=1)


def sinusoids(cosines: Tensor, sines: Tensor, width: int) -> Tensor:
    """Return the sinusoidal encoding: sines at even dimensions, cosines at odd ones.

    Args:
        cosines: [N, ceil(d / 2)].
        sines: [N, ceil(d / 2)].
        width: d.

    Returns:
        Encoding [N, d].

    Source:
        Equations 2.3 and 2.4 of the study.
    """
    return torch.stack((sines, cosines), dim=-1).flatten(-2)[:, :width]


def alibi_slopes(heads: int) -> list[float]:
    """Return by how much each head lowers the score of two tokens per column between them (ALiBi).

    Decoders look back only. This encoder looks to both sides, and the score falls with the distance |i - j| alike on
    both: the bias then depends on the distance alone, as the original does, a head's reach is the same to either side,
    and no head is lost to one of them. The price: without another encoding, attention cannot tell left from right.
    Mirroring a text mirrors the states, unless tokens such as [CLS] and [SEP] mark its ends.

    Args:
        heads: H.

    Returns:
        H slopes: for a power of two 2^(-8/H), 2^(-16/H), ..., 2^-8; otherwise those of the power of two below, and
        then every other one of twice that power, from the first on.

    Source:
        Press et al. 2022, "Train Short, Test Long", section 3 and, for other numbers of heads, its code.
    """
    power = 2 ** (heads.bit_length() - 1)
    finer = alibi_slopes(2 * power)[::2] if heads > power else []
    return [2 ** (-8 * head / power) for head in range(1, power + 1)] + finer[: heads - power]
