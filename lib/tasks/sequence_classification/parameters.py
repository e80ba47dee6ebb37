"""Parameters of classification."""

from typing import ClassVar, Literal

from lib.backbones.parameters import Ability
from lib.data.sections.texts import Texts
from lib.tasks.classifier import ClassifierParameters


class Parameters(ClassifierParameters):
    """Classification of whole documents, or of pairs of texts that are read together."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["sequence_classification"]
