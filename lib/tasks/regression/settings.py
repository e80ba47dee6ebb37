"""Settings of regression."""

from typing import ClassVar, Literal

from lib.data.settings.texts import Texts
from lib.tasks.classifier import ClassifierSettings


class Settings(ClassifierSettings):
    """Regression: predicts a number for a document or a pair of texts, such as the similarity of the pair."""

    numbers: ClassVar[bool] = True
    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["regression"]
