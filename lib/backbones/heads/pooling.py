"""From the states of a document to one vector. They ignore padding.

Shapes: B batch, N tokens, D hidden size.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from lib.core.errors import ConfigError


def pool_cls(states: Tensor, mask: Tensor) -> Tensor:
    """Return the state of the first real token (equation 2.9 of the study).

    Args:
        states: [B, N, D].
        mask: [B, N], true = real token.

    Returns:
        [B, D].
    """
    first = mask.int().argmax(dim=1)
    return states[torch.arange(len(states), device=states.device), first]


def pool_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over real tokens (equation 2.10); arguments and result as in `pool_cls`."""
    total = states.masked_fill(~mask[:, :, None], 0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def pool_max(states: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum of each dimension over real tokens (equation 2.11); as in `pool_cls`."""
    return states.masked_fill(~mask[:, :, None], torch.finfo(states.dtype).min).amax(dim=1)


def pool_min(states: Tensor, mask: Tensor) -> Tensor:
    """Return the minimum of each dimension over real tokens (equation 2.11); as in `pool_cls`."""
    return -pool_max(-states, mask)


def pool_mean_step(states: Tensor, mask: Tensor, step: int) -> Tensor:
    """Return the mean over every `step`-th real token, from the first on (equation 2.12); as in `pool_cls`."""
    rank = mask.cumsum(dim=1) - 1
    return pool_mean(states, mask & (rank % step == 0))


def pooling(name: str, step: int) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return the pooling function called `name`.

    Args:
        name: `cls`, `mean`, `max`, `min` or `mean_step`.
        step: stride of `mean_step`, in tokens.

    Returns:
        Function of states [B, N, D] and mask [B, N] (1 = real token; None = all real) to [B, D].

    Raises:
        ConfigError: the pooling is unknown, or the step is below 1.
    """
    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cls": pool_cls,
        "mean": pool_mean,
        "max": pool_max,
        "min": pool_min,
        "mean_step": functools.partial(pool_mean_step, step=step),
    }
    if name not in functions:
        raise ConfigError(f"classifier_pooling = '{name}' is unknown. Use one of: {', '.join(functions)}.")
    if step < 1:
        raise ConfigError(f"pooling_step = {step}; expected at least 1 token.")

    def pool(states: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            mask = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return functions[name](states, mask.bool())

    return pool
