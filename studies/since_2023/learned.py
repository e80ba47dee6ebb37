"""Bases of the mechanisms with weights of their own, and of those among them that carry a state through a text.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from lib.attention.contract import Attention
from lib.core.randomness import derive_seed

EPS = 1e-5
"""Added to the mean square of a head's output, which divides the output."""

STEPS = (0.001, 0.1)
"""Range of the initial step sizes; at rate 1, a state forgets within some 1,000 or 10 tokens."""


class Learned(Attention):
    """Hold weights that are drawn from (kind, seed, layer), and divide outputs by the root mean square of each head."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name, value in self._drawn().items():
            self.register_parameter(name, nn.Parameter(torch.empty(value.shape)))
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Draw the first weights."""
        for name, value in self._drawn().items():
            self.get_parameter(name).copy_(value)

    def first_weights(self, generator: Generator) -> dict[str, Tensor]:
        """Return the first weights by name, on the CPU; those of one dimension do not decay."""
        return {"gain": torch.ones(self.head_size, device="cpu")}

    def normalised(self, rows: Tensor, factor: float = 1.0) -> Tensor:
        """Return `rows` [B, H, N, d] over their root mean square, times a learned gain and `factor`."""
        gain = self.get_parameter("gain").to(rows.dtype) * factor
        return functional.rms_norm(rows, (self.head_size,), gain, EPS)

    def _drawn(self) -> dict[str, Tensor]:
        seed = derive_seed(self.settings.kind, self.seed, self.layer)
        return self.first_weights(Generator("cpu").manual_seed(seed))


class Recurrent(Learned):
    """Mix tokens by a state that gates of the states of the layer rule; normalise the output, and gate it by silu(W x).

    Computed in float32 at least, also under autocast.
    """

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, *states: Tensor) -> Tensor:
        """See `Attention.attend`."""
        precision = torch.promote_types(value.dtype, torch.float32)
        with torch.autocast(value.device.type, enabled=False):
            query, key, value, seen = (each.to(precision) for each in (query, key, value, *states))
            (gate,) = functional.silu(self.projected(seen, "gate"))
            return self.normalised(self.mix(query, key, value, real, seen)) * gate

    @abstractmethod
    def mix(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, states: Tensor) -> Tensor:
        """Return the sums over the tokens [B, H, N, d]; arguments as of `Attention.attend`, in one type."""

    def first_weights(self, generator: Generator) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        gate = linear(generator, 1, self.width or 0, self.num_heads * self.head_size)
        return super().first_weights(generator) | {"gate": gate}

    def projected(self, states: Tensor, name: str) -> Tensor:
        """Return states [B, N, D] times the matrices called `name` [K, D, H e], by heads [K, B, H, N, e]."""
        matrices = self.get_parameter(name).to(states.dtype)[:, None]
        return (states @ matrices).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def of_heads(self, name: str, rows: Tensor) -> Tensor:
        """Return the weights called `name` [K H e], to meet `rows` [K, B, H, N, e]."""
        return self.get_parameter(name).to(rows.dtype).view(-1, 1, self.num_heads, 1, rows.shape[-1])


def linear(generator: Generator, *shape: int) -> Tensor:
    """Return matrices [K, D, E], drawn as torch draws a linear layer."""
    return uniform(generator, -1, 1, *shape) / math.sqrt(shape[1])


def first_steps(generator: Generator, number: int) -> Tensor:
    """Return the inverse softplus of step sizes, whose logarithms are uniform over `STEPS`."""
    low, high = map(math.log, STEPS)
    drawn = uniform(generator, low, high, number).exp()
    return drawn + torch.log(-torch.expm1(-drawn))


def uniform(generator: Generator, low: float, high: float, *shape: int) -> Tensor:
    """Return numbers from `low` to `high`, on the CPU."""
    return torch.rand(shape, generator=generator, device="cpu") * (high - low) + low
