"""Masked language modelling on an architecture of transformers, by a head like that of its own language models.

Shapes: D hidden size, V vocabulary.
"""

from torch import Tensor, nn

from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.heads.masked_lm_head import MaskedLMHead, VocabularyHead
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


def vocabulary_head(config: PretrainedBackboneConfig) -> VocabularyHead:
    """Return a head of the parts that the family's own language models have."""
    return (MaskedLMHead if "dense" in config.family.head else Projection)(config)


class PretrainedForMaskedLM(MaskedLM, PretrainedBackbonePreTrainedModel):
    """Predict tokens from their context."""

    backbone_class = PretrainedBackboneModel
    head_class = staticmethod(vocabulary_head)  # type: ignore[assignment]  # it makes a head as a class of heads does

    def __init__(self, config: PretrainedBackboneConfig) -> None:
        self._tied_weights_keys = {"head.decoder.weight": f"pretrained.inner.{config.family.words}.weight"}
        super().__init__(config)
