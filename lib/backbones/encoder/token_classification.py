"""The encoder for classification of tokens."""

from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel
from lib.backbones.heads.token_classification import TokenClassification


class EncoderForTokenClassification(TokenClassification, EncoderPreTrainedModel):
    """Tell the class of each token."""

    backbone_class = EncoderModel
