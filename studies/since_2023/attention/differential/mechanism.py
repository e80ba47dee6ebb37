"""Differential attention, by two fused calls; quadratic in N in time. It must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import math

import torch
from torch import Tensor

from lib.attention.contract import attend_densely
from lib.core.errors import ConfigError
from studies.since_2023.learned import Learned


class Mechanism(Learned):
    """(softmax(q_1 k_1^T / sqrt(d / 2)) - l softmax(q_2 k_2^T / sqrt(d / 2))) v, normalised per head, times 1 - l_0.

    l = exp(l_1 . l_2) - exp(l_3 . l_4) + l_0 is learned, with l_0 = 0.8 - 0.6 exp(-0.3 layer) and layers from 0. Each
    map has every second pair of dimensions, so that both have slow and fast rotations of rotary positions; the paper
    rotates the dimensions of each map on their own. The two fused calls get whole keys, and queries with zeros in the
    dimensions of the other map, since torch's kernel on a CPU wants values as wide as keys.

    Source:
        Ye et al. 2024, "Differential Transformer", equations 1 to 3; the first l_i, N(0, 0.1^2), as in published code.
        There, models have half as many heads, so that a map is as wide as usual.

    Raises:
        ConfigError: the head width is no multiple of 4.
    """

    needs_clean_padding = False

    def first_weights(self) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        if self.head_size % 4:
            raise ConfigError(f"differential: heads are {self.head_size} wide. Two maps need a multiple of 4.")
        drawn = torch.randn(4, self.head_size // 2, generator=self.generator("factors"), device="cpu")
        return super().first_weights() | {"factors": 0.1 * drawn}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, *states: Tensor) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        with torch.autocast(value.device.type, enabled=False):
            query, key, value = (rows.to(precision) for rows in (query, key, value))
            is_first = torch.arange(self.head_size, device=query.device) // 2 % 2 == 0
            halves = (query * seen * 2**0.5 for seen in (is_first, ~is_first))  # the call divides by sqrt(d)
            first, second = (attend_densely(half, key, value, real, bias=None, dropout=0.0) for half in halves)
            one, two, three, four = self.get_parameter("factors").to(precision)
            start = 0.8 - 0.6 * math.exp(-0.3 * self.layer)
            factor = (one @ two).exp() - (three @ four).exp() + start
            return self.normalised(first - factor * second) * (1 - start)
