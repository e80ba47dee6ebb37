"""Classification of pairs of texts that are read separately."""

from typing import ClassVar, Literal

from lib.backbones.settings import Ability
from lib.preparing.settings.document_form import Texts
from lib.tasks.document_classification import ClassifierSettings, DocumentClassification


class Settings(ClassifierSettings):
    """Classification of pairs of texts that are read separately by the same weights, and compared by the head."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    head: ClassVar[str | None] = "pair_classification"
    weighs_classes: ClassVar[bool] = True
    texts: ClassVar[tuple[Texts, ...]] = ("separately",)

    kind: Literal["pair_classification"]


class Task(DocumentClassification):
    """Predict the class of a pair of texts."""

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.pair_classification import PairClassification

        return PairClassification.auto_model
