"""Exact scaled dot-product attention by torch's operations, on every device. It is the baseline of the comparison.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.contract import Attention
from lib.attention.sdpa.settings import Settings


class Mechanism(Attention):
    """Softmax attention over all real tokens, by torch's fused kernel or in plain operations.

    With ALiBi, both form the bias as a matrix [1, H, N, N], with padding [B, H, N, N]; so memory is quadratic in N.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """

    settings: Settings

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`."""
        dropout = self.dropout if self.training else 0.0
        allowed = None
        if real is not None:
            # A row without real tokens sees its (zero) padding: no softmax over nothing, whatever the kernel.
            allowed = (real | ~real.any(-1, keepdim=True))[:, None, None, :]  # [B, 1, 1, N]
        bias = self._bias(query)
        if self.settings.use_native_sdpa:
            if bias is not None:
                allowed = bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
            return functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, dropout_p=dropout)
        scores = (query * self.head_size**-0.5) @ key.transpose(-1, -2)  # [B, H, N, N]
        if bias is not None:
            scores = scores + bias
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        weights = functional.dropout(scores.softmax(-1), dropout)
        return weights.to(value.dtype) @ value

    def _bias(self, query: Tensor) -> Tensor | None:
        """Return what ALiBi adds to the scores [1, H, N, N], in the type of `query`; None without it."""
        slopes = self.slopes(query.device)
        if slopes is None:
            return None
        positions = torch.arange(query.shape[2], device=query.device)
        distances = (positions[:, None] - positions).abs()
        return (-slopes[:, None, None] * distances).to(query.dtype)[None]  # without B, the fused kernel gives up
