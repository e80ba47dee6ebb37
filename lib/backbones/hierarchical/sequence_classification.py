"""Classification of documents that are read in segments.

Shapes: B documents, N tokens, S segments, D hidden size.
"""

import torch
from torch import Tensor, nn

from lib.backbones.heads.model import pooling
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.hierarchical.configuration import HierarchicalConfig
from lib.backbones.hierarchical.model import HierarchicalModel, HierarchicalPreTrainedModel
from lib.backbones.hierarchical.segments import segment_counts
from lib.backbones.positions import SINUSOIDAL_BASE, Phases, sinusoids


class SegmentPooling(nn.Module):
    """Mean or maximum over the segments, each with the same weight; before, perhaps a transformer.

    Segments that a document does not have take no part.

    Source:
        Pappagari et al. 2019, "Hierarchical Transformers for Long Document Classification" (ToBERT), for the
        transformer. There the encoder is fine-tuned on segments first; here all is trained at once. The positions of
        the segments are sinusoidal, so that there may be any number of them.
    """

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__()
        self.config = config
        self.pool = pooling("max" if config.pooling == "max" else "mean", 1)
        self.norm: nn.Module | None = None
        self.transformer: nn.Module | None = None
        if config.pooling == "transformer":
            width, heads, dropout = config.hidden_size, config.document_heads, config.document_dropout
            self.norm = nn.LayerNorm(width)
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, activation="gelu", batch_first=True)
            self.transformer = nn.TransformerEncoder(layer, config.document_layers, enable_nested_tensor=False)

    def forward(self, states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return the vectors of documents [B, D].

        Args:
            states: of the segments [B, S, D].
            attention_mask: of the documents' tokens [B, N], 1 = real token; None = all real, so that all documents have
                all segments.
        """
        real = None
        if attention_mask is not None:
            counts = segment_counts(self.config, attention_mask.sum(dim=1))
            real = torch.arange(states.shape[1], device=states.device) < counts[:, None]
        if self.norm is not None and self.transformer is not None:
            states = self.norm(states)
            size = states.shape[2]
            states = states + sinusoids(*Phases(size, SINUSOIDAL_BASE)(states.shape[1], states.device), size).to(states)
            states = self.transformer(states, src_key_padding_mask=None if real is None else ~real)
        return self.pool(states, real)


class HierarchicalForSequenceClassification(SequenceClassification, HierarchicalPreTrainedModel):
    """Predict the class of a document; the head combines the vectors of its segments."""

    backbone_class = HierarchicalModel

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        self.pool = SegmentPooling(config)  # the tokens of a segment have been pooled before
        self.post_init()


Head = HierarchicalForSequenceClassification
