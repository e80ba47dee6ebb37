"""Parameters of regression."""

from typing import ClassVar, Literal

from lib.data.sections.texts import Texts
from lib.tasks.classifier import ClassifierParameters


class Parameters(ClassifierParameters):
    """A number for a whole document, or for a pair of texts, such as how similar they are: from hidden states to it."""

    numbers: ClassVar[bool] = True
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["regression"]
