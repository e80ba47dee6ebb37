"""The boundaries of segments. They count real tokens, so padding never moves one.

Shapes: B documents, N tokens, S segments of the document that has most, T segments of all documents, G segments at
once, L tokens of the longest of these.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from lib.backbones.hierarchical.configuration import HierarchicalConfig


class Segment(NamedTuple):
    """One segment of a batch."""

    document: int
    """Row of the batch."""
    number: int
    """Number of the segment in its document, from 0."""
    start: int
    """Number of real tokens of the document before it, without those that enclose the document."""
    tokens: int
    """Number of its own tokens, without those that enclose it."""


def segment_counts(config: HierarchicalConfig, real: Tensor) -> Tensor:
    """Return the number of segments of each document, at least one.

    Args:
        config: config of the model.
        real: numbers of their real tokens, those that enclose them included [B].
    """
    beyond = real - config.tokens_before - config.tokens_behind - config.overlap
    return (beyond.clamp(min=1) + config.step - 1) // config.step


def segments_of(config: HierarchicalConfig, real: list[int]) -> list[Segment]:
    """Return the segments of all documents, the longest first, so that those read together are of like length.

    The lengths of a document's segments differ by one token at most. If the last one were shorter, its tokens would
    weigh more in a mean over segments, or in a maximum.
    """
    found = []
    for document, count in enumerate(segment_counts(config, torch.tensor(real)).tolist()):
        content = max(0, real[document] - config.tokens_before - config.tokens_behind)
        shared = min(content, config.overlap)
        starts = [(content - shared) * number // count for number in range(count + 1)]
        found += [
            Segment(document, number, start, end + shared - start)
            for number, (start, end) in enumerate(pairwise(starts))
        ]
    return sorted(found, key=lambda segment: -segment.tokens)


class Documents:
    """The tokens of a batch of documents, the source of segments.

    What encloses a document, its first and last tokens, encloses each of its segments.

    Args:
        config: config of the model.
        values: token ids [B, N], or word embeddings [B, N, D].
        attention_mask: [B, N], 1 = real token; None = all real.
    """

    def __init__(self, config: HierarchicalConfig, values: Tensor, attention_mask: Tensor | None) -> None:
        self.config, self.values = config, values
        if attention_mask is None:
            attention_mask = torch.ones(values.shape[:2], dtype=torch.long, device=values.device)
        # The places of the real tokens, in order, and then those of the padding.
        self.order = (attention_mask == 0).int().argsort(dim=1, stable=True)
        self.real = attention_mask.sum(dim=1).tolist()

    def read(self, segments: list[Segment]) -> tuple[Tensor, Tensor | None]:
        """Return the tokens of some segments [G, L], or their embeddings [G, L, D], and which of them are real.

        Returns:
            The mask is [G, L], 1 = real token, padded on the right; None = all real. At padding stands the first token
            of the segment, so that nothing of the documents' own padding gets in.
        """
        before, behind = self.config.tokens_before, self.config.tokens_behind
        places = [
            (segment.document, segment.start, segment.tokens, self.real[segment.document]) for segment in segments
        ]
        row, start, tokens, real = torch.tensor(places, device=self.values.device).T[:, :, None]
        end = before + tokens  # of the document's tokens
        place = torch.arange(max(segment.tokens for segment in segments) + before + behind, device=row.device)
        source = torch.where(place < before, place, start + place)
        source = torch.where(place < end, source, real - behind + place - end)
        mask = place < end + behind
        source = source.masked_fill(~mask, 0).clamp(0, self.values.shape[1] - 1)
        found = self.values[row, self.order[row, source]]
        return found, None if len({segment.tokens for segment in segments}) == 1 else mask.long()
