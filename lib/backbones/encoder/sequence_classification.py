"""The encoder for classification of whole documents (fine-tuning)."""

from lib.backbones.encoder.model import EncoderModel, EncoderPreTrainedModel
from lib.backbones.heads.sequence_classification import SequenceClassification


class EncoderForSequenceClassification(SequenceClassification, EncoderPreTrainedModel):
    """Tell the class of a document."""

    backbone_class = EncoderModel
