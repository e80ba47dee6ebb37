"""Classification of whole documents: fine-tuning, and classifiers that need no training loop."""

from typing import ClassVar, Literal

from lib.backbones.settings import Ability
from lib.preparing.settings.document_form import Texts
from lib.tasks.document_classification import ClassifierSettings, DocumentClassification


class Settings(ClassifierSettings):
    """Classification of whole documents, or of pairs of texts that are read together."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    weighs_classes: ClassVar[bool] = True
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["sequence_classification"]


class Task(DocumentClassification):
    """Predict the class of a document."""

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.sequence_classification import SequenceClassification

        return SequenceClassification.auto_model
