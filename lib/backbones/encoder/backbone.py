"""The encoder as a backbone of runs."""

from lib.backbones import contract
from lib.backbones.encoder.model import EncoderModel


class Backbone(contract.TokenBackbone):
    """BERT-style encoder with an exchangeable attention mechanism."""

    model_class = EncoderModel
