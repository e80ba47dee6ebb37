"""The recurrent encoder for masked language modelling (pretraining and adaptation)."""

from typing import ClassVar

from lib.backbones.heads.masked_lm import MaskedLM
from lib.backbones.recurrent.model import RecurrentModel, RecurrentPreTrainedModel


class RecurrentForMaskedLM(MaskedLM, RecurrentPreTrainedModel):
    """Predict tokens from their context."""

    backbone_class = RecurrentModel
    _tied_weights_keys: ClassVar[dict[str, str]] = {
        "head.decoder.weight": "recurrent.embeddings.word_embeddings.weight"
    }
