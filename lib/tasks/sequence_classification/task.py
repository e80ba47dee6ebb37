"""Classification of whole documents: fine-tuning, and classifiers that need no training loop."""

from typing import ClassVar

from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.tasks.document_classification import DocumentClassification


class Task(DocumentClassification):
    """Predict the class of a document."""

    auto_model: ClassVar[str] = SequenceClassification.auto_model
