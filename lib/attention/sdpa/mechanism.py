"""Exact scaled dot-product attention by torch's operations, on every device. It is the baseline of the comparison.

Shapes: B batch, H heads, N tokens, d head width.
"""

from torch import Tensor
from torch.nn import functional

from lib.attention.contract import Attention, attend_densely
from lib.attention.sdpa.settings import Settings


class Mechanism(Attention):
    """Softmax attention over all real tokens, by torch's fused kernel or in plain operations.

    With ALiBi, both form the bias as a matrix [1, H, N, N], with padding [B, H, N, N]; so memory is quadratic in N.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1.
    """

    settings: Settings
    needs_clean_padding = False
    is_traceable = True

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`."""
        dropout = self.dropout if self.training else 0.0
        bias = self.exact_bias(query)
        if self.settings.use_native_sdpa:
            return attend_densely(query, key, value, real, bias=bias, dropout=dropout)
        scores = (query * self.head_size**-0.5) @ key.transpose(-1, -2)  # [B, H, N, N]
        if bias is not None:
            scores = scores + bias
        if real is not None:
            scores = scores.masked_fill(~(real | ~real.any(-1, keepdim=True))[:, None, None, :], float("-inf"))
        weights = functional.dropout(scores.softmax(-1), dropout)
        return weights.to(value.dtype) @ value
