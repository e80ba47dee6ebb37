"""The recurrent encoder for classification of whole documents (fine-tuning)."""

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.recurrent.model import RecurrentModel, RecurrentPreTrainedModel


class RecurrentForSequenceClassification(SequenceClassification, RecurrentPreTrainedModel):
    """Tell the class of a document."""

    backbone_class = RecurrentModel
