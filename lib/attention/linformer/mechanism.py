"""Linformer by torch's operations, on every device: attention to a few learned mixtures of keys and values.

Linear in N in time and memory; must equal the dense reference of the tests.

Shapes: B batch, H heads, N tokens, d head width, K mixtures.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.contract import Attention, ranks
from lib.attention.linformer.settings import Settings
from lib.core.randomness import derive_seed


class Mechanism(Attention):
    """Softmax attention to K mixtures of keys, each with the like mixture of values.

    The shares of a token in the mixtures are learned for its place among the real tokens of its row. One table [length,
    K] per layer serves all heads, keys and values: at 512 tokens and 128 mixtures, 65,536 weights per layer, 0.9 % of
    the grid's encoder. It starts from N(0, 1 / length), drawn from (seed, layer), so mixtures of `length` tokens are as
    large as a token. All K mixtures take part in the softmax, whatever the length of a text.

    Source:
        Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", equation 7, with one projection for keys,
        values and heads (section 4, "key-value sharing"). Its theorems have N(0, 1 / K); it pads texts to `length`.
    """

    settings: Settings
    shares: nn.Parameter

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.shares = nn.Parameter(torch.empty(self.settings.length, self.settings.rank))
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Draw the first shares, which belong to (seed, layer)."""
        generator = torch.Generator("cpu").manual_seed(derive_seed("linformer", self.seed, self.layer))
        drawn = torch.randn(self.shares.shape, generator=generator, device="cpu")
        self.shares.copy_(drawn / self.settings.length**0.5)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; in the type of the rows, as exact attention."""
        if real is None:
            shares = self.shares[: query.shape[2]].to(key.dtype).mT  # [K, N]
            key, value = shares @ key, shares @ value  # [B, H, K, d]
        else:
            places, _ = ranks(real, query)
            shares = functional.embedding(places, self.shares).to(key.dtype)  # [B, N, K]
            # Keys and values are zeros at padding, so its shares mix nothing in.
            key, value = (torch.einsum("bnk,bhnd->bhkd", shares, rows) for rows in (key, value))
        dropout = self.dropout if self.training else 0.0
        return functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
