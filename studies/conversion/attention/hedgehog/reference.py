"""Hedgehog, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import text_by_text
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


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention by the kernel of all pairs of tokens; see `text_by_text`.

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine".
    """
    phi = mechanism.settings.phi
    of_queries = features(query, mechanism.of_queries.matrix, phi)
    kernel = of_queries @ features(key, mechanism.of_keys.matrix, phi).mT  # [H, n, n]
    return kernel @ value / kernel.sum(-1, keepdim=True)
