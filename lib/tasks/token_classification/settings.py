"""Settings of the classification of words."""

from typing import ClassVar, Literal

from pydantic import Field

from lib.core.settings import Probability
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Classification of every labelled word by the state of its first token."""

    labelled: ClassVar[bool] = True
    label_per: ClassVar[Literal["document", "word"]] = "word"
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    kind: Literal["token_classification"]
    classifier_dropout: Probability = Field(0.1, description="Dropout before the projection.")
