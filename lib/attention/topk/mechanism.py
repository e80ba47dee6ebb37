"""Top-k attention by torch's operations, on every device: every query attends to the keys of its highest scores.

Linear in N in memory. The choice forms all scores, block by block, and is quadratic in time; the rest is linear.
Must equal the dense reference of the tests.

Shapes: B batch, H heads, N tokens, d head width, K chosen keys, G sequences of a block, n queries of a block.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from lib.attention.contract import ABSENT, Attention
from lib.attention.topk.settings import Settings

SCORES = {"cpu": 2**21, "gpu": 2**27}
"""Number of scores in memory at a time."""

DENSE = 512
"""Up to this length one call under a dense mask of the chosen keys is faster on a CPU than gathering them."""


class Mechanism(Attention):
    """Softmax attention over the K real keys with the highest scores q . k / sqrt(d), in each head.

    Scores are computed and compared in float32 (in float64, they are rounded to it). Of equal scores the earlier token
    wins, so the choice is a function of the real tokens, on every device. ALiBi lowers the scores before the choice.
    With K >= n real tokens it is exact attention. The choice has no gradient.

    Source:
        Gupta et al. 2021, "Memory-efficient Transformers via Top-k Attention", section 2, whose choice is the same; it
        leaves ties to the library.
    """

    settings: Settings
    needs_clean_padding = True  # gradients are summed in an order that depends on what padding chooses

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        batch, heads, length, _ = query.shape
        with torch.autocast(query.device.type, enabled=False):
            query, key, value = (rows.to(precision) for rows in (query, key, value))
            if query.device.type == "cpu" and length <= DENSE and not (self.dropout and self.training):
                return self._attend_exactly(query, key, value, None, self._mask(query, key, real))
            queries, keys, values = (rows.flatten(0, 1) for rows in (query * self.head_size**-0.5, key, value))
            chosen, scores = self._choose(queries.detach(), keys.detach(), real)  # [BH, N, K]
            first = torch.arange(batch * heads, device=query.device, dtype=chosen.dtype)[:, None, None] * length
            chosen = (chosen + first).flatten(0, 1)  # rows of all sequences' keys
            queries, keys, values = (rows.flatten(0, 1) for rows in (queries, keys, values))
            weights = _Scores.apply(queries, keys, chosen, scores.flatten(0, 1)).softmax(-1)
            weights = functional.dropout(weights, self.dropout, self.training)
            output = functional.embedding_bag(chosen, values, per_sample_weights=weights, mode="sum")
        return output.view(batch, heads, length, -1)

    @torch.no_grad()
    def _mask(self, query: Tensor, key: Tensor, real: Tensor | None) -> Tensor:
        """Return what is added to the scores [B, H, N, N]: 0 at the chosen keys, `ABSENT` at the others."""
        queries, length = (query * self.head_size**-0.5).flatten(0, 1), query.shape[2]
        chosen, scores = self._choose(queries, key.flatten(0, 1), real)
        added = scores.where(scores <= ABSENT, 0.0)  # padding is chosen where fewer tokens are real
        mask = torch.full((len(queries), length, length), ABSENT, dtype=query.dtype)
        return mask.scatter_(-1, chosen.long(), added).unflatten(0, query.shape[:2])

    @torch.no_grad()
    def _choose(self, queries: Tensor, keys: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the columns of the highest scores, and these scores: [BH, N, K] each; arguments as of `_scores`."""
        sequences, length, _ = queries.shape
        number = min(self.settings.keys, length)
        chosen = torch.empty(sequences, length, number, dtype=torch.int32, device=queries.device)
        found = queries.new_empty(chosen.shape)
        for place, scores in self._scores(queries, keys, real):
            columns = highest(scores, number)
            chosen[place] = columns.int()
            found[place] = scores.gather(-1, columns)
        return chosen, found

    def _scores(
        self, queries: Tensor, keys: Tensor, real: Tensor | None
    ) -> Iterator[tuple[tuple[slice, slice], Tensor]]:
        """Yield the scores of some queries of some sequences [G, n, N], and their place.

        Args:
            queries: [BH, N, d], scaled.
            keys: [BH, N, d].
            real: [B, N], true at real tokens; None = all real.
        """
        sequences, length, _ = queries.shape
        device = queries.device
        places, slopes = torch.arange(length, device=device), self.slopes(device)
        tokens = max(1, SCORES["cpu" if device.type == "cpu" else "gpu"] // length)
        size = max(1, tokens // length)
        for start in range(0, sequences, size):
            part = torch.arange(start, min(start + size, sequences), device=device)  # [G]
            group = slice(start, start + size)
            for first in range(0, length, tokens):
                block = slice(first, first + tokens)
                scores = queries[group, block] @ keys[group].mT
                if slopes is not None:
                    distances = (places[block, None] - places).abs()
                    scores -= slopes[part % self.num_heads, None, None].to(scores.dtype) * distances
                if real is not None:
                    scores.masked_fill_(~real[part // self.num_heads, None], ABSENT)
                yield (group, block), scores


def highest(scores: Tensor, number: int) -> Tensor:
    """Return the columns of the highest scores of each row in any order; of equal scores, the first columns.

    Groups of neighbouring columns whose highest scores come first hold all of them, so only these are searched.

    Args:
        scores: [..., N]; compared in float32.
        number: K, N at most.

    Returns:
        [..., K] integers.
    """
    scores, length = scores.float(), scores.shape[-1]
    size = max(1, int((length / number) ** 0.5))  # makes groups and the columns in the best of them fewest
    columns = torch.arange(length, device=scores.device)
    if size > 1 and number * size < length:
        groups = functional.pad(scores, (0, -length % size), value=float("-inf")).unflatten(-1, (-1, size)).amax(-1)
        best = _ordered(groups, torch.arange(groups.shape[-1], device=scores.device)).topk(number, sorted=False).indices
        columns = (best[..., None] * size + torch.arange(size, device=scores.device)).flatten(-2)
        beyond = columns >= length
        columns = columns.clamp(max=length - 1)
        scores = scores.gather(-1, columns).masked_fill_(beyond, float("-inf"))
    places = _ordered(scores, columns).topk(number, sorted=False).indices
    return columns.expand(scores.shape).gather(-1, places)


def _ordered(scores: Tensor, columns: Tensor) -> Tensor:
    """Return integers in the order of `scores` in float32, and of equal ones higher for earlier `columns`."""
    bits = (scores + 0.0).view(torch.int32)  # of 0 and -0, the same
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # of negative numbers, larger magnitudes come first
    return bits.long() * 2**32 - columns


class _Scores(torch.autograd.Function):
    """Pass on scores that were computed for the choice, with the gradient that computing them had."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, chosen: Tensor, scores: Tensor) -> Tensor:
        """Return `scores`.

        Args:
            ctx: autograd's.
            queries: [BHN, d], scaled.
            keys: [BHN, d].
            chosen: rows of `keys` [BHN, K].
            scores: of queries and chosen keys [BHN, K].
        """
        ctx.save_for_backward(queries, keys, chosen)
        return scores.view_as(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of queries and keys, [BHN, d] each."""
        queries, keys, chosen = ctx.saved_tensors
        # Both are products with the same sparse matrix, that of the keys with its transpose.
        with torch.enable_grad():
            keys = keys.detach().requires_grad_()
            of_queries = functional.embedding_bag(chosen, keys, per_sample_weights=gradient, mode="sum")
        (of_keys,) = torch.autograd.grad(of_queries, keys, queries)
        return of_queries.detach(), of_keys, None, None
