"""Classification of documents that are read in segments."""

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.backbones.hierarchical.configuration import HierarchicalConfig
from lib.backbones.hierarchical.model import HierarchicalModel, HierarchicalPreTrainedModel
from lib.backbones.hierarchical.pooling import SegmentPooling


class HierarchicalForSequenceClassification(SequenceClassification, HierarchicalPreTrainedModel):
    """Tell the class of a document; what puts its segments together belongs to the head."""

    backbone_class = HierarchicalModel

    def __init__(self, config: HierarchicalConfig) -> None:
        super().__init__(config)
        self.pool = SegmentPooling(config)  # the tokens of a segment have been pooled before
        self.post_init()


Head = HierarchicalForSequenceClassification
