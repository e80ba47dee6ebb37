"""Parameters of classification."""

from typing import ClassVar, Literal

from lib.backbones.parameters import Ability
from lib.tasks.classifier import ClassifierParameters


class Parameters(ClassifierParameters):
    """Classification of whole documents: from hidden states to class scores."""

    evaluates_on: ClassVar[Ability | None] = "class_probabilities"

    kind: Literal["sequence_classification"]
