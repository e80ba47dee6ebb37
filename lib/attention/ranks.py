"""Ranks of real tokens: the positions that mechanisms count, so that padding moves none.

Shapes: B batch, N tokens.
"""

import torch
from torch import Tensor


def ranks(real: Tensor | None, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many real tokens stand before each token, and how many a row has.

    Args:
        real: [B, N], true at real tokens; None = all real.
        rows: [B, H, N, d], on whose device the results lie.

    Returns:
        Ranks [B, N], those of padding not below 0, and lengths [B]; [1, N] and [1] if all are real.
    """
    if real is None:
        length = rows.shape[2]
        return torch.arange(length, device=rows.device)[None], torch.full((1,), length, device=rows.device)
    return (real.cumsum(-1) - 1).clamp_(min=0), real.sum(-1)
