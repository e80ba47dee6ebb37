"""The recurrent encoder for classification of tokens."""

from lib.backbones.heads.token_classification import TokenClassification
from lib.backbones.recurrent.model import RecurrentModel, RecurrentPreTrainedModel


class RecurrentForTokenClassification(TokenClassification, RecurrentPreTrainedModel):
    """Tell the class of each token."""

    backbone_class = RecurrentModel
