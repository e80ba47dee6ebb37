"""Bases of the mechanisms with weights of their own, and of those among them that carry a state through a text.

Shapes: B batch, H heads, N tokens, d head width, D width of the states.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.contract import Attention
from lib.core.randomness import derive_seed
from studies.since_2023.settings import RecurrentSettings


class Learned(Attention):
    """Hold weights, each drawn from (kind, name, seed, layer), and divide outputs by the root mean square of a head."""

    width: int

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for name, value in self.first_weights().items():
            self.register_parameter(name, nn.Parameter(torch.empty(value.shape)))
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Draw the first weights."""
        for name, value in self.first_weights().items():
            self.get_parameter(name).copy_(value)

    def first_weights(self) -> dict[str, Tensor]:
        """Return the first weights by name, on the CPU; those of one dimension do not decay."""
        return {"gain": torch.ones(self.head_size, device="cpu")}

    def normalised(self, rows: Tensor) -> Tensor:
        """Return `rows` [B, H, N, d] over their root mean square, times a learned gain."""
        return functional.rms_norm(rows, (self.head_size,), self.get_parameter("gain").to(rows.dtype), 1e-5)

    def uniform(self, name: str, low: float, high: float, *shape: int) -> Tensor:
        """Draw numbers from `low` to `high` for the weights called `name`."""
        return torch.rand(shape, generator=self.generator(name), device="cpu") * (high - low) + low

    def generator(self, name: str) -> torch.Generator:
        """Return the generator of the weights called `name`."""
        return torch.Generator("cpu").manual_seed(derive_seed(self.settings.kind, name, self.seed, self.layer))


class Recurrent(Learned):
    """Mix tokens by a state that gates of the states of the layer rule; normalise the output, and gate it by silu(W x).

    Computed in float32 at least, also under autocast.
    """

    settings: RecurrentSettings

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

    def first_weights(self) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        return super().first_weights() | {"gate": self.linear("gate", 1, self.width, self.num_heads * self.head_size)}

    def linear(self, name: str, *shape: int) -> Tensor:
        """Draw matrices [K, D, E] as torch draws a linear layer, for the weights called `name`."""
        return self.uniform(name, -1, 1, *shape) / math.sqrt(shape[1])

    def first_steps(self, number: int) -> Tensor:
        """Draw the inverse softplus of steps from 0.001 to 0.1, uniform in their logarithms, as `bias`.

        At rate 1, a state forgets within some 1,000 or 10 tokens.
        """
        drawn = self.uniform("bias", math.log(0.001), math.log(0.1), number).exp()
        return drawn + torch.log(-torch.expm1(-drawn))

    def projected(self, states: Tensor, name: str) -> Tensor:
        """Return states [B, N, D] times the matrices called `name` [K, D, H e], by heads [K, B, H, N, e]."""
        matrices = self.get_parameter(name).to(states.dtype)[:, None]
        return (states @ matrices).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)

    def of_heads(self, name: str, rows: Tensor) -> Tensor:
        """Return the weights called `name` [K H e], to meet `rows` [K, B, H, N, e]."""
        return self.get_parameter(name).to(rows.dtype).view(-1, 1, self.num_heads, 1, rows.shape[-1])
