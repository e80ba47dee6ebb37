"""The encoder as what maps documents to vectors."""

from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel
from lib.backbones.heads.text_encoding import TextEncoding


class EncoderForTextEncoding(TextEncoding, EncoderPreTrainedModel):
    """Map documents to vectors."""

    backbone_class = EncoderModel
