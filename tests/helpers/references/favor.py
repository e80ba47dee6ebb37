"""FAVOR+ attention, dense and in float64: the reference for tests of `mechanism.py` and `kernels.py`. No run uses it.

It forms the N x N matrix of estimated kernel values.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.attention.favor.mechanism import Mechanism
from lib.attention.reference import text_by_text

EXAMPLES = {
    "favor-exp": {"kind": "favor", "nb_features": 32},
    "favor-exp-independent": {"kind": "favor", "nb_features": 10, "ortho_features": False},
    "favor-exp-unstabilised": {"kind": "favor", "nb_features": 16, "stabilize": False},
    "favor-saderf": {"kind": "favor", "nb_features": 32, "features": "saderf"},
    "favor-relu": {"kind": "favor", "nb_features": 19, "phi": "relu"},
    "favor-elu": {"kind": "favor", "phi": "elu"},
}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention by the kernel that the mechanism's random features estimate; see `text_by_text`.

    Source:
        Choromanski et al. 2021, equation 5 and section 2.2; the study reproduced, equations 3.28 and 3.54.
    """
    settings = mechanism.settings
    estimate = KERNELS[settings.features if settings.features in KERNELS else settings.phi]
    # Stabilised features have the normaliser 1, so that no eps is needed.
    eps = 0.0 if settings.phi == "exp" and settings.stabilize else settings.eps
    outputs = []
    for head, of_values in enumerate(value):
        q, k = (rows[head] / rows.shape[-1] ** 0.25 for rows in (query, key))
        draws = None if settings.phi == "elu" else mechanism.features[head].double()
        kernel = estimate(q, k, draws, settings.eps)
        outputs.append(kernel @ of_values / (kernel.sum(-1, keepdim=True) + eps))
    return torch.stack(outputs)


def softmax_kernel(query: Tensor, key: Tensor, draws: Tensor, eps: float) -> Tensor:
    """Return the mean of cosh(w.(q + k)) exp(-(|q|^2 + |k|^2) / 2) over the draws w [D, d]: [n, n]."""
    total = query[:, None] + key[None]  # [n, n, d]
    estimates = torch.cosh(total @ draws.T).mean(-1)
    return estimates * torch.exp(-(query.square().sum(-1)[:, None] + key.square().sum(-1)[None]) / 2)


def saderf_kernel(query: Tensor, key: Tensor, draws: Tensor, eps: float) -> Tensor:
    """Return softmax's kernel estimated after a change of queries and keys that keeps their products: [n, n].

    The mean over the draws w [D, d] of (1 - 4A)^(d/2) exp(2A |w|^2) cosh(B w.(q + k)) exp(-(|q|^2 + |k|^2) / 2).

    Source:
        Likhosherstov et al. 2022, "Chefs' Random Tables", for A; 2023, "FAVOR#", for the scales.
    """
    if not len(query):
        return query @ key.T
    width = query.shape[-1]
    with torch.no_grad():
        scales = (key.square().sum(0) / query.square().sum(0)) ** 0.25
    query, key = query * scales, key / scales
    total = query[:, None] + key[None]  # [n, n, d]
    with torch.no_grad():
        size = total.square().sum(-1).mean()
        rho = (((2 * size + width) ** 2 + 8 * width * size).sqrt() - 2 * size - width) / (4 * size)
        quadratic = (1 - 1 / rho) / 8
    factors = (1 - 4 * quadratic) ** (width / 2) * torch.exp(2 * quadratic * draws.square().sum(-1))
    estimates = (factors * torch.cosh(total @ draws.T * (1 - 4 * quadratic).sqrt())).mean(-1)
    return estimates * torch.exp(-(query.square().sum(-1)[:, None] + key.square().sum(-1)[None]) / 2)


def relu_kernel(query: Tensor, key: Tensor, draws: Tensor, eps: float) -> Tensor:
    """Return the sum over the draws w [D, d] of (max(w.q, 0) + eps) (max(w.k, 0) + eps): [n, n]."""
    return (torch.clamp(query @ draws.T, min=0) + eps) @ (torch.clamp(key @ draws.T, min=0) + eps).T


def elu_kernel(query: Tensor, key: Tensor, draws: None, eps: float) -> Tensor:
    """Return f(q).f(k) with f(x) = x + 1 for x > 0 and exp(x) otherwise: [n, n]."""
    query, key = (torch.where(rows > 0, rows + 1, torch.exp(rows.clamp(max=0))) for rows in (query, key))
    return query @ key.T


KERNELS: dict[str, Callable[..., Tensor]] = {
    "exp": softmax_kernel,
    "saderf": saderf_kernel,
    "relu": relu_kernel,
    "elu": elu_kernel,
}
