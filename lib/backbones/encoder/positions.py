"""Position encodings that are computed, not learned, so that nothing limits the length.

Shapes: B batch, H heads, N tokens, d width of a head or of an embedding.
"""

import torch
from torch import Tensor


class Phases:
    """Cosines and sines of position x frequency, in float32, kept for the greatest length met so far.

    Not a module and no buffer: the tables are a function of the length at hand, so they belong to no checkpoint
    and are right on whatever device the model finds itself.

    Args:
        width: dimensions to encode, two to a frequency.
        base: frequency i is base ** (-2 i / width).
        scale: factor on the phase.

    Source:
        Equations 2.5 and 2.6 of the study; Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, width: int, base: float, scale: float = 1.0) -> None:
        self.width = width
        self.base = base
        self.scale = scale
        self._tables: tuple[Tensor, Tensor] | None = None

    def __call__(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the cosines and the sines at positions 0 to `length` - 1.

        Args:
            length: tokens.
            device: where the tables are needed.

        Returns:
            Two tensors [N, ceil(d / 2)], float32.
        """
        if self._tables is None or len(self._tables[0]) < length or self._tables[0].device != device:
            # A table made during inference mode could not take part in a later backward pass.
            with torch.inference_mode(False):
                exponents = torch.arange(0, self.width, 2, dtype=torch.float32, device=device) / self.width
                positions = torch.arange(length, dtype=torch.float32, device=device)
                phases = self.scale * positions[:, None] * self.base**-exponents
                self._tables = phases.cos(), phases.sin()
        cosines, sines = self._tables
        return cosines[:length], sines[:length]


def rotate(states: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Turn each pair of consecutive dimensions of `states` by its position's phase.

    Afterwards the product of a query and a key depends on their distance alone.

    Args:
        states: queries or keys [B, H, N, d].
        cosines: [N, d / 2].
        sines: [N, d / 2].

    Returns:
        Rotated states [B, H, N, d], in the type of `states`; the arithmetic is in float32.

    Source:
        Equation 2.7 of the study; Su et al. 2021 (RoFormer), equation 34.
    """
    # A pair is a complex number, and to turn it is to multiply it by another one.
    pairs = torch.view_as_complex(states.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.complex(cosines, sines)).flatten(-2).to(states.dtype)


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
