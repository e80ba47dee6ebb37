"""LoLCATs' attention by torch's operations, on every device: a softmax nearby, learned features beyond.

Linear in N in time and memory; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width, T blocks of C tokens, W tokens of the window of a block.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.attention.block_sparse.computation import by_rank
from lib.attention.contract import ABSENT, Attention, ranks
from studies.conversion.attention.feature_map import FeatureMap
from studies.conversion.attention.lolcats.settings import Settings

FIRST_FACTOR = 0.1
"""First factor of the weights of a window."""


class Mechanism(Attention):
    """Attention with the weights g exp(s - c) within the window, and phi(q) . phi(k) beyond, divided by their sum.

    s are the scores q . k / sqrt(d), and c is the greatest score of the query in its window; g is the sigmoid of a
    learned number per head. phi is Hedgehog's, the softmax of [Wx, -Wx]. A window is an odd number of blocks of real
    tokens, the query's own in the middle. As the greatest weight of a window is g and no other exceeds 1, nothing
    overflows or vanishes. Without the linear branch this is BigBird's window (`bigbird` without global and random
    blocks), so a model can be evaluated without it.

    Source:
        Zhang et al. 2024, "LoLCATs: On Low-Rank Linearizing of Large Language Models", for decoders. There, a window
        is before its tokens; their code has the softmax of Wx and of -Wx one by one.
    """

    settings: Settings
    needs_clean_padding = False
    factor: nn.Parameter

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.of_queries, self.of_keys = (FeatureMap(self.num_heads, self.head_size) for _ in range(2))
        self.factor = nn.Parameter(torch.empty(self.num_heads))  # the sigmoid of it is g
        self.reset_features()

    @torch.no_grad()
    def reset_features(self) -> None:
        """Set the feature maps and factors to their first weights."""
        self.of_queries.reset_features()
        self.of_keys.reset_features()
        self.factor.fill_(FIRST_FACTOR).logit_()

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        place, lengths = ranks(real, query)
        there = torch.arange(query.shape[2], device=query.device) < lengths[:, None]  # by rank, [B or 1, N]
        # A column of ones sums up the weights.
        value = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
        order = None if real is None else by_rank(query, real)
        query, key, value = (self._in_blocks(rows.to(precision), order) for rows in (query, key, value))
        there = self._in_blocks(there[:, None, :, None], None)  # [B or 1, 1, T, C, 1]
        with torch.autocast(query.device.type, enabled=False):
            value = value * there
            output = self._near(query, key, value, there) + self._beyond(query, key, value)
            output = output[..., :-1] / output[..., -1:].clamp(min=torch.finfo(precision).tiny)
        output = output.flatten(2, 3)[:, :, : place.shape[-1]]
        return output if real is None else output.gather(2, _index(place, output))

    def _in_blocks(self, rows: Tensor, order: Tensor | None) -> Tensor:
        """Return `rows` [B, H, N, d] by rank and in blocks [B, H, T, C, d], zeros after the last one."""
        size = self.settings.block_size
        rows = rows if order is None else rows.gather(2, _index(order, rows))
        return functional.pad(rows, (0, 0, 0, -rows.shape[2] % size)).unflatten(2, (-1, size))

    def _near(self, query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
        """Return the sums of the window over values [B, H, T, C, d + 1]."""
        key, value, there = (_windows(rows, self.settings.window_blocks // 2) for rows in (key, value, there))
        scores = query @ key.mT * self.head_size**-0.5 + torch.where(there.mT, 0.0, ABSENT)  # [B, H, T, C, W]
        scores = scores - scores.amax(-1, keepdim=True)
        return self.factor.to(scores.dtype).sigmoid()[:, None, None, None] * (scores.exp() @ value)

    def _beyond(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the sums of the linear branch over values [B, H, T, C, d + 1]."""
        queries, keys = (
            each(rows.flatten(2, 3)).softmax(-1).view(*rows.shape[:-1], -1)
            for each, rows in ((self.of_queries, query), (self.of_keys, key))
        )
        sums = keys.mT @ value  # [B, H, T, 2 d, d + 1]
        reach = self.settings.window_blocks // 2
        return queries @ (_before(sums, reach) + _before(sums.flip(2), reach).flip(2))


def _index(places: Tensor, rows: Tensor) -> Tensor:
    """Return `places` [B, N] as an index of tokens of `rows` [B, H, N, d]."""
    return places[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[3])


def _windows(blocks: Tensor, reach: int) -> Tensor:
    """Return the windows [B, H, T, W, d] of `blocks` [B, H, T, C, d]; zeros beyond the first and the last one."""
    around = functional.pad(blocks, (0, 0, 0, 0, reach, reach))
    return torch.cat([around[:, :, shift : shift + blocks.shape[2]] for shift in range(2 * reach + 1)], dim=3)


def _before(blocks: Tensor, reach: int) -> Tensor:
    """Return, for each of `blocks` [B, H, T, ..], the sum of those more than `reach` before it."""
    number = blocks.shape[2]
    summed = blocks[:, :, : max(0, number - reach - 1)].cumsum(2)
    return functional.pad(summed, (0, 0, 0, 0, number - summed.shape[2], 0))
