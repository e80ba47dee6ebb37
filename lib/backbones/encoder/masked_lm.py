"""The encoder for masked language modelling (pretraining and adaptation)."""

from typing import ClassVar

from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel
from lib.backbones.heads.masked_lm import MaskedLM


class EncoderForMaskedLM(MaskedLM, EncoderPreTrainedModel):
    """Predict tokens from their context."""

    backbone_class = EncoderModel
    _tied_weights_keys: ClassVar[dict[str, str]] = {"head.decoder.weight": "encoder.embeddings.word_embeddings.weight"}
