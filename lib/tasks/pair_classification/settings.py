"""Settings of the classification of pairs."""

from typing import ClassVar, Literal

from lib.backbones.settings import Ability
from lib.data.settings.texts import Texts
from lib.tasks.classifier import ClassifierSettings


class Settings(ClassifierSettings):
    """Classification of pairs of texts that are read separately by the same weights, and compared by the head."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    head: ClassVar[str | None] = "pair_classification"
    texts: ClassVar[tuple[Texts, ...]] = ("separately",)

    kind: Literal["pair_classification"]
