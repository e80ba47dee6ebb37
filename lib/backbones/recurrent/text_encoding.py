"""The recurrent encoder as what maps documents to vectors."""

from lib.backbones.heads.text_encoding import TextEncoding
from lib.backbones.recurrent.model import RecurrentModel, RecurrentPreTrainedModel


class RecurrentForTextEncoding(TextEncoding, RecurrentPreTrainedModel):
    """Map documents to vectors."""

    backbone_class = RecurrentModel
