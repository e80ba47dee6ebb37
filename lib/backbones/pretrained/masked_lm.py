"""Masked language modelling on an architecture of transformers, by a head like that of its language models.

Shapes: D hidden size, V vocabulary.
"""

from typing import ClassVar

from torch import Tensor, nn

from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.heads.masked_lm_head import VocabularyHead
from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.model import PretrainedBackboneModel, PretrainedBackbonePreTrainedModel


class Projection(VocabularyHead):
    """From states to vocabulary scores by one projection without bias."""

    def __init__(self, config: PretrainedBackboneConfig) -> None:
        super().__init__()
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., D] to logits [..., V]."""
        return self.decoder(states)


class PretrainedForMaskedLM(MaskedLM, PretrainedBackbonePreTrainedModel):
    """Predict tokens from their context."""

    backbone_class = PretrainedBackboneModel
    head_class = Projection
    _tied_weights_keys: ClassVar[dict[str, str]] = {"head.decoder.weight": "pretrained.inner.embed_tokens.weight"}
