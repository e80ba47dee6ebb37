"""Linformer by torch's operations.

Shapes: B batch, H heads, N tokens, d head width, K mixtures.
"""

from typing import Any

import torch
from torch import Tensor

from lib.attention.contract import Attention
from lib.core.randomness import derive_seed


class Mechanism(Attention):
    """Attention to K mixtures of keys, which returns as many mixtures of values.

    The shares of the mixtures are drawn, not learnt. Positions count real tokens.

    Source:
        Wang et al. 2020, "Linformer", equation 7.
    """

    features: Tensor

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.register_buffer("features", torch.empty(2, self.settings.mixtures, self.settings.longest()))
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Draw the shares of keys and of values [2, K, longest]."""
        generator = torch.Generator("cpu").manual_seed(derive_seed("linformer", self.seed, self.layer))
        self.features.normal_(generator=generator).div_(self.features.shape[-1] ** 0.5)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`."""
        if real is None:
            real = torch.ones(len(query), query.shape[2], dtype=torch.bool)
        precision = torch.promote_types(query.dtype, torch.float32)
        query, key, value = (rows.to(precision) for rows in (query, key, value))
        positions = (real.cumsum(-1) - 1).clamp(min=0)  # [B, N]
        shares = self.features.to(precision)[:, :, positions] * real  # [2, K, B, N]
        of_keys, of_values = shares.transpose(1, 2)[:, :, None]  # [B, 1, K, N]
        with torch.autocast(query.device.type, enabled=False):
            scores = query @ (of_keys @ key).mT * self.head_size**-0.5  # [B, H, N, K]
            return scores.softmax(-1) @ (of_values @ value)
