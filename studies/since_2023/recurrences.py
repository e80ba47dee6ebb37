"""The recurrent form in float64, token by token, for tests of the scans. No run uses it.

Shapes: B batch, H heads, N tokens, n real tokens of a text, d head width, D width of the states.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from studies.since_2023.learned import Learned


def text_by_text(mix: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a reference for batches, made of a function that mixes one text without padding.

    Args:
        mix: function of the mechanism's weights by name, of queries, keys and values [H, n, d] and of states [n, D],
            all in float64. It returns the sums [H, n, d]; norm and gate of the output follow here.
    """

    @functools.wraps(mix)
    def reference(mechanism: Learned, *rows: Tensor) -> Tensor:
        *heads, attention_mask, states = rows
        weights = {name: weight.double() for name, weight in mechanism.named_parameters()}
        output = torch.zeros_like(heads[2])
        for row, real in enumerate(attention_mask.bool()):
            if real.any():
                seen = states[row, real]
                mixed = mix(weights, *(each[row][:, real] for each in heads), seen)
                mixed = mixed / torch.sqrt(mixed.square().mean(-1, keepdim=True) + 1e-5) * weights["gain"]
                (gate,) = project(seen, weights["gate"], len(mixed))
                output[row][:, real] = mixed * gate * torch.sigmoid(gate)
        return output

    return reference


def project(states: Tensor, matrices: Tensor, heads: int) -> Tensor:
    """Return states [n, D] by matrices [K, D, H e] as [K, H, n, e]."""
    return (states @ matrices).unflatten(-1, (heads, -1)).transpose(-3, -2)


def read(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, strength: Tensor, *, erases: bool, counts_itself: bool
) -> Tensor:
    """Return what queries read of a state from the first token on, and of one from the last, [H, n, d].

    Args:
        query: [H, n, d].
        key: as `query`.
        value: as `query`.
        decay: factor of the state's rows, for each direction [2, H, n, d or 1].
        strength: factor of the writes [2, H, n, 1].
        erases: whether a token first takes from the state what its key reads there.
        counts_itself: whether the first state has taken in the token that reads it; the second one never has.
    """
    total = torch.zeros_like(value)
    for direction, places in enumerate((range(value.shape[1]), range(value.shape[1])[::-1])):
        state, found = torch.zeros_like(key.mT @ value), {}
        for place in places:
            before, column = state, key[:, place, :, None]
            state = decay[direction, :, place, :, None] * state
            new = value[:, place, None] - erases * column.mT @ state
            state = state + strength[direction, :, place, None] * column @ new
            found[place] = query[:, place, None] @ (state if counts_itself and not direction else before)
        total = total + torch.cat([found[place] for place in sorted(found)], 1)
    return total
