"""Classification of whole documents on an architecture of transformers."""

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.pretrained.model import PretrainedBackboneModel, PretrainedBackbonePreTrainedModel


class PretrainedForSequenceClassification(SequenceClassification, PretrainedBackbonePreTrainedModel):
    """Tell the class of a document."""

    backbone_class = PretrainedBackboneModel
