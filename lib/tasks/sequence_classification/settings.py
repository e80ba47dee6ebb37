"""Settings of classification."""

from typing import ClassVar, Literal

from lib.backbones.settings import Ability
from lib.data.settings.texts import Texts
from lib.tasks.classifier import ClassifierSettings


class Settings(ClassifierSettings):
    """Classification of whole documents, or of pairs of texts that are read together."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["sequence_classification"]
