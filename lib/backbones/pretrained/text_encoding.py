"""An architecture of transformers as what maps documents to vectors."""

from lib.backbones.heads.text_encoding import TextEncoding
from lib.backbones.pretrained.model import PretrainedBackboneModel, PretrainedBackbonePreTrainedModel


class PretrainedForTextEncoding(TextEncoding, PretrainedBackbonePreTrainedModel):
    """Map documents to vectors."""

    backbone_class = PretrainedBackboneModel
