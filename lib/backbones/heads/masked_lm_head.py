"""From states to vocabulary scores. Knows nothing of classification.

Shapes: D hidden size, V vocabulary.
"""

from torch import Tensor, nn
from torch.nn import functional

from lib.backbones.configuration import BackboneConfig


class VocabularyHead(nn.Module):
    """Base of the heads that end in a projection to the vocabulary."""

    decoder: nn.Linear


class MaskedLMHead(VocabularyHead):
    """Dense layer, exact GELU, layer norm, decoder with a bias of its own (as BERT)."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, states: Tensor) -> Tensor:
        """Map states [..., D] to logits [..., V]."""
        return self.decoder(self.layer_norm(functional.gelu(self.dense(states))))
