"""Top-k attention by blocks in torch's operations, on every device: a block attends to a window and to chosen blocks.

Linear in N in memory, and in time but for the choice, which compares all pairs of blocks. Must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width, C tokens per block, L = N rounded up to whole blocks, n = L / C
blocks, S blocks that a block sees.
"""

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lib.attention.contract import Attention
from lib.attention.ranks import ranks
from lib.attention.topk_blocks.parameters import Parameters

SCORES = {"cpu": 2**22, "gpu": 2**27}
"""Scores that are computed at a time."""


class Mechanism(Attention):
    """Softmax attention of each block of queries to its own block, `window` blocks on either side, and the best others.

    Blocks hold C real tokens each, in their order; the last one of a row may hold fewer. The best blocks of keys are
    those whose mean key has the highest product with the mean query, for each head, compared in float32; of equal ones
    the earlier wins. A text of no more blocks than a block sees has exact attention. ALiBi lowers the scores, not the
    products of the means. The choice has no gradient.

    Source:
        Lu et al. 2025, "MoBA: Mixture of Block Attention for Long-Context LLMs", section 2.2, which chooses by the mean
        key of a block, too, but for each query and only among earlier blocks; Yuan et al. 2025, "Native Sparse
        Attention", section 3.3, which chooses by learned means, once for several heads, and adds a window.
    """

    settings: Parameters

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; the choice is made in float32, the rest is in the type of the rows."""
        size, length = self.settings.block_size, query.shape[2]
        places, lengths = ranks(real, query)
        missing = -length % size
        order = None  # columns of the tokens, real ones first [B, L]
        if real is not None:
            order = functional.pad(~real, (0, missing), value=True).sort(dim=-1, stable=True).indices
        blocks = [_blocks(rows, order, missing, size) for rows in (query, key, value)]  # [BH, n, C, d]
        count = blocks[0].shape[1]
        starts = torch.arange(count, device=query.device) * size
        sizes = (lengths[:, None] - starts).clamp(0, size)  # [B or 1, n]
        seen, valid = self._choose(blocks[0], blocks[1], sizes)  # [BH, n, S]
        tokens = torch.arange(size, device=query.device) < sizes[..., None]  # [B or 1, n, C]
        columns = torch.arange(count * size, device=query.device)[None] if order is None else order
        output = self._mix(blocks, seen, valid, tokens, columns.unflatten(-1, (count, size)))
        output = output.flatten(1, 2).unflatten(0, query.shape[:2])  # [B, H, L, d]
        return output[:, :, :length] if order is None else _rows(output, places)

    @torch.no_grad()
    def _choose(self, queries: Tensor, keys: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the blocks that each block of queries sees, and which of these count: [BH, n, S] each.

        Args:
            queries: [BH, n, C, d].
            keys: as `queries`.
            sizes: real tokens of the blocks [B or 1, n].
        """
        sequences, count, size, _ = keys.shape
        window, device = min(self.settings.window, count - 1), keys.device
        sizes = sizes.expand(sequences // self.num_heads, -1).repeat_interleave(self.num_heads, 0)  # [BH, n]
        inside = (torch.arange(size, device=device) < sizes[..., None])[..., None]  # [BH, n, C, 1]
        means = [
            rows.float().masked_fill(~inside, 0).sum(2) / sizes.clamp(min=1)[..., None] for rows in (queries, keys)
        ]
        with torch.autocast(device.type, enabled=False):
            products = means[0] @ means[1].mT  # [BH, n, n]
        blocks = torch.arange(count, device=device)
        near = (blocks[:, None] - blocks).abs() <= window
        products.masked_fill_(near | (sizes == 0)[:, None], float("-inf"))
        best, order = products.sort(dim=-1, descending=True, stable=True)
        best, order = (each[..., : min(self.settings.blocks, count)] for each in (best, order))
        local = blocks[:, None] + torch.arange(-window, window + 1, device=device)  # [n, 2 window + 1]
        exists = ((local >= 0) & (local < count)).expand(sequences, -1, -1)
        seen = torch.cat([local.clamp(0, count - 1).expand_as(exists), order], -1)
        return seen, torch.cat([exists, best > float("-inf")], -1)

    def _mix(self, blocks: list[Tensor], seen: Tensor, valid: Tensor, tokens: Tensor, columns: Tensor) -> Tensor:
        """Return the output of all blocks [BH, n, C, d].

        Args:
            blocks: queries, keys and values [BH, n, C, d].
            seen: blocks of keys that each block of queries sees [BH, n, S].
            valid: which of them count, as `seen`.
            tokens: which tokens of a block are real [B or 1, n, C].
            columns: where the tokens stand in the batch [B or 1, n, C].
        """
        sequences, count, size, _ = blocks[0].shape
        slopes, dropout = self.slopes(seen.device), self.dropout if self.training else 0.0
        scores = SCORES["cpu" if seen.device.type == "cpu" else "gpu"]
        several = max(1, scores // (seen.shape[-1] * size * size))  # blocks at a time
        group = max(1, several // count)  # sequences
        outputs = []
        # Parts by `split`, whose gradients are joined once; by slices, each would be a full tensor.
        for number, parts in enumerate(zip(*(rows.split(group) for rows in (*blocks, seen, valid)), strict=True)):
            sequence = torch.arange(number * group, number * group + len(parts[0]), device=seen.device)
            row = sequence // self.num_heads if len(tokens) > 1 else torch.zeros_like(sequence)
            bias = None if slopes is None else slopes[sequence % self.num_heads]
            for start in range(0, count, several):
                outputs.append(
                    checkpoint(
                        _attend,
                        *parts,
                        tokens[row],
                        columns[row],
                        bias,
                        slice(start, start + several),
                        dropout,
                        use_reentrant=False,
                        preserve_rng_state=dropout > 0,
                    )
                )
        return torch.cat([output.flatten(0, 1) for output in outputs]).view(sequences, count, size, -1)


def _attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    seen: Tensor,
    valid: Tensor,
    tokens: Tensor,
    columns: Tensor,
    slopes: Tensor | None,
    part: slice,
    dropout: float,
) -> Tensor:
    """Return the output of some blocks of some sequences; see `Mechanism._mix`, slopes are those of the sequences."""
    queries, seen, valid = queries[:, part], seen[:, part], valid[:, part]
    sequences, count, size, width = queries.shape

    def met(rows: Tensor) -> Tensor:
        """Return what of `rows` [sequences, n, ...] the blocks see: [sequences * count, 1, S C, ...]."""
        first = torch.arange(sequences, device=seen.device)[:, None, None] * rows.shape[1]
        found = rows.flatten(0, 1).index_select(0, (seen + first).flatten())
        return found.view(sequences * count, 1, -1, *rows.shape[3:])

    allowed: Tensor = met(tokens).view(sequences, count, -1, size) & valid[..., None]
    allowed = allowed.view(sequences * count, 1, 1, -1)
    allowed = allowed | ~allowed.any(-1, keepdim=True)  # a row without real tokens sees its (zero) padding
    if slopes is not None:
        own = columns[:, part].reshape(sequences * count, 1, size, 1)
        distances = (own - met(columns)[:, :, None]).abs()
        bias = -slopes.repeat_interleave(count)[:, None, None, None] * distances
        allowed = bias.to(queries.dtype).masked_fill(~allowed, float("-inf"))
    output = functional.scaled_dot_product_attention(
        queries.reshape(sequences * count, 1, size, width), met(keys), met(values), attn_mask=allowed, dropout_p=dropout
    )
    return output.view(sequences, count, size, width)


def _blocks(rows: Tensor, order: Tensor | None, missing: int, size: int) -> Tensor:
    """Return `rows` [B, H, N, d] as blocks of real tokens [BH, n, C, d]; behind them comes padding."""
    rows = functional.pad(rows, (0, 0, 0, missing)) if missing else rows
    rows = rows if order is None else _rows(rows, order)
    return rows.reshape(-1, rows.shape[2] // size, size, rows.shape[3])


def _rows(rows: Tensor, places: Tensor) -> Tensor:
    """Return the `rows` [B, H, N, d] that stand at `places` [B, n]: [B, H, n, d]."""
    batch, heads, length, width = rows.shape
    first = torch.arange(batch * heads, device=rows.device).view(batch, heads, 1) * length
    found = rows.reshape(-1, width).index_select(0, (first + places[:, None]).flatten())
    return found.view(batch, heads, -1, width)
