"""Classification of tokens on an architecture of transformers."""

from lib.backbones.heads.token_classification import TokenClassification
from lib.backbones.pretrained.model import PretrainedBackboneModel, PretrainedBackbonePreTrainedModel


class PretrainedForTokenClassification(TokenClassification, PretrainedBackbonePreTrainedModel):
    """Tell the class of each token."""

    backbone_class = PretrainedBackboneModel
