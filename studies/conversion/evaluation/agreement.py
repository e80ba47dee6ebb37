"""Agreement of the states of two models for the same tokens.

Shapes: B batch, N tokens, D width of the states.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

SCALARS = ("tokens", "documents", "squared_error", "squares", "token_cosines", "document_cosines")
"""Scalar sums of `agreement_sums`, before the D sums of the target's states."""


def agreement_sums(states: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """Return sums over the tokens and documents of a batch for `agreement`.

    Args:
        states: states of one model [B, N, D].
        targets: states of the other model [B, N, D].
        real: [B, N], true = real token, at least one per document; other positions are ignored.

    Returns:
        `SCALARS`, and the sum of the target's states [6 + D], in float64.
    """
    found, expected = (each.double().masked_fill(~real[:, :, None], 0) for each in (states, targets))
    scalars = [
        real.sum(),
        torch.tensor(len(real), device=real.device),
        (found - expected).square().sum(),
        expected.square().sum(),
        functional.cosine_similarity(found, expected, dim=-1).sum(),  # 0 at padding
        functional.cosine_similarity(found.sum(dim=1), expected.sum(dim=1), dim=-1).sum(),  # as of means
    ]
    return torch.cat([torch.stack([scalar.double() for scalar in scalars]), expected.sum(dim=(0, 1))])


def agreement(sums: np.ndarray) -> dict[str, float]:
    """Return the scores over all batches.

    Args:
        sums: one row of `agreement_sums` per batch [n, 6 + D].

    Returns:
        `unexplained_variance`, the mean squared error relative to the variance of the target's states around their
        mean, 1 - R^2: 0 = equal, 1 = no better than that mean; NaN if they do not vary. `token_cosine`, the mean cosine
        of the two states of a token. `document_cosine`, the mean cosine of the two means of a document's states.
    """
    total = sums.sum(axis=0)
    tokens, documents, error, squares, token_cosines, document_cosines = total[: len(SCALARS)]
    variation = squares - np.square(total[len(SCALARS) :]).sum() / tokens
    return {
        "unexplained_variance": float(error / variation) if variation > 0 else float("nan"),
        "token_cosine": float(token_cosines / tokens),
        "document_cosine": float(document_cosines / documents),
    }
