"""Hedgehog, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from studies.conversion.attention.hedgehog.mechanism import Mechanism

EXAMPLES = {
    "hedgehog": {"kind": "hedgehog"},
    "hedgehog-exp": {"kind": "hedgehog", "phi": "exp"},
}


def features(rows: Tensor, matrix: Tensor, phi: str) -> Tensor:
    """Return the features [H, n, 2 d] of `rows` [H, n, d] by each head's W^T [H, d, d]."""
    mapped = torch.einsum("hnd,hde->hne", rows, matrix.double())
    raised = torch.cat([mapped.exp(), (-mapped).exp()], dim=-1)
    return raised / raised.sum(-1, keepdim=True) if phi == "softmax" else raised


def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor) -> Tensor:
    """Return attention by the kernel of all pairs of real tokens, zeros at padding.

    Args:
        mechanism: gives the feature maps.
        query: [B, H, N, d] in float64; likewise `key` and `value`.
        key: as `query`.
        value: as `query`.
        attention_mask: [B, N], 1 = real token.

    Returns:
        [B, H, N, d].

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine".
    """
    phi = mechanism.settings.phi
    output = torch.zeros_like(value)
    for row, mask in enumerate(attention_mask):
        real = mask.nonzero().squeeze(-1)
        q = features(query[row][:, real], mechanism.of_queries.matrix, phi)
        k = features(key[row][:, real], mechanism.of_keys.matrix, phi)
        kernel = q @ k.mT  # [H, n, n]
        output[row][:, real] = kernel @ value[row][:, real] / kernel.sum(-1, keepdim=True)
    return output
