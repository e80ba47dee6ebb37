"""Nyström attention by torch's operations, on every device: two small attentions and an inverse between them.

Linear in N in time and memory; must equal the dense reference of the tests.

Shapes: B batch, H heads, N tokens, d head width, M landmarks.
"""

import torch
from torch import Tensor
from torch.nn import functional

from lib.attention.contract import Attention, ranks
from lib.attention.nystrom.settings import Settings


class Mechanism(Attention):
    """Attention softmax(q l^T) softmax(p l^T)^+ softmax(p k^T) v, with the landmarks p of queries and l of keys.

    The n real tokens of a row are cut into M segments, n of one token if there are fewer than M: the token that follows
    r others belongs to segment floor(r M / n). The mean over a segment is its landmark. The outer factors are exact
    attention to M landmarks and of M landmarks, so neither of their matrices is kept. The pseudo-inverse of the middle
    one is approached by iterations that start from its transpose over its largest column sum, taken per head and row;
    so the result for a text is a function of that text. With M >= n it is exact attention except for what the
    iterations leave.

    Source:
        Xiong et al. 2021, "Nyströmformer", equations 13 to 15 and algorithm 1. Its code takes the largest column sum
        over the whole batch, means over padding too, and lengths that M divides; it adds a depthwise convolution over
        the values, which is not here.
    """

    settings: Settings
    needs_clean_padding = False

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        query, key, value = (rows.to(precision) for rows in (query, key, value))
        landmarks, length = min(self.settings.landmarks, query.shape[2]), query.shape[2]
        present = seen = None  # landmarks [B, 1, 1, M] and keys [B, 1, 1, N] that are there
        if real is not None:
            # A row without real tokens has one landmark, 0, and sees its (zero) padding.
            present = torch.arange(landmarks, device=query.device) < real.sum(-1, keepdim=True).clamp(min=1)
            seen = (real | ~real.any(-1, keepdim=True))[:, None, None]
            present = present[:, None, None]
        with torch.autocast(query.device.type, enabled=False):
            if real is None and length % landmarks == 0:
                means = [rows.unflatten(2, (landmarks, -1)).mean(3) for rows in (query, key)]
            else:
                segments, sizes = _segments(real, query, landmarks)
                means = [_means(rows, segments, sizes) for rows in (query, key)]
            of_queries, of_keys = means  # [B, H, M, d]
            scores = (of_queries * self.head_size**-0.5) @ of_keys.mT
            if present is not None:
                scores = scores.masked_fill(~present, float("-inf"))
            middle = scores.softmax(-1)  # [B, H, M, M]
            if present is not None:
                middle = middle.masked_fill(~present.mT, 0)
            mixed = functional.scaled_dot_product_attention(of_queries, key, value, attn_mask=seen)
            mixed = pseudo_inverse(middle, self.settings.iterations) @ mixed
            return functional.scaled_dot_product_attention(query, of_keys, mixed, attn_mask=present)


def pseudo_inverse(matrices: Tensor, iterations: int) -> Tensor:
    """Return an approximation of the Moore-Penrose inverse of each of `matrices` [..., M, M].

    Args:
        matrices: rows are non-negative and sum to 1, or are zeros.
        iterations: their number.

    Source:
        Xiong et al. 2021, equation 14 and algorithm 1; the start is that of Pan and Schreiber 1991, A^T over the
        largest row sum, which is 1, and the largest column sum.
    """
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    inverse = matrices.mT / matrices.sum(-2, keepdim=True).amax(-1, keepdim=True)
    for _ in range(iterations):
        product = matrices @ inverse
        bracket = 15 * identity - product @ (7 * identity - product)
        inverse = 0.25 * inverse @ (13 * identity - product @ bracket)
    return inverse


def _segments(real: Tensor | None, rows: Tensor, landmarks: int) -> tuple[Tensor, Tensor]:
    """Return which segment each token belongs to [B, N], `landmarks` at padding, and their sizes [B, landmarks]."""
    places, lengths = ranks(real, rows)
    number = lengths.clamp(max=landmarks)  # of segments
    segments = places * number[:, None] // lengths.clamp(min=1)[:, None]
    if real is not None:
        segments = segments.masked_fill(~real, landmarks)
    sizes = segments.new_zeros(len(segments), landmarks + 1).scatter_add_(1, segments, torch.ones_like(segments))
    return segments, sizes[:, :-1]


def _means(rows: Tensor, segments: Tensor, sizes: Tensor) -> Tensor:
    """Return the means of `rows` [B, H, N, d] over segments [B, H, M, d], zeros where there are none."""
    batch, heads, _, width = rows.shape
    landmarks = sizes.shape[1]
    first = torch.arange(batch * heads, device=rows.device).view(batch, heads, 1) * (landmarks + 1)
    places = (first + segments[:, None]).flatten()
    sums = rows.new_zeros(batch * heads * (landmarks + 1), width).index_add(0, places, rows.flatten(0, 2))
    sums = sums.view(batch, heads, landmarks + 1, width)[:, :, :-1]
    return sums / sizes.clamp(min=1)[:, None, :, None]
