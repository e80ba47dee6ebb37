"""The feature map that each head learns, for Hedgehog and for the linear branch of LoLCATs.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor, nn


class FeatureMap(nn.Module):
    """Map rows x of each head to the logarithms of 2 d positive features, Wx and -Wx.

    W is of the head's own, and the identity at first.

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine: Expressive Linear Attentions with Softmax Mimicry". Published
        code differs in whether W has a bias, which ours lacks.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(heads, width, width))  # W^T
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Set every W to the identity."""
        self.matrix.copy_(torch.eye(self.matrix.shape[-1], device=self.matrix.device).expand_as(self.matrix))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logarithms of the features [B, H, N, 2 d] of `rows` [B, H, N, d], in the type of `rows`."""
        mapped = rows @ self.matrix.to(rows.dtype)
        return torch.cat([mapped, -mapped], dim=-1)
