"""Settings of the comparison of documents with phrases."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.settings import PositiveFloat, check
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Zero-shot classification: a document has the class of the phrase with the most similar vector."""

    trains_on: ClassVar[Ability | None] = None
    evaluates_on: ClassVar[Ability | None] = "states"
    labelled: ClassVar[bool] = True
    head: ClassVar[str | None] = "text_encoding"
    predicts: ClassVar[bool] = True
    splits: ClassVar[tuple[str, ...]] = ("validation", "test")

    kind: Literal["label_matching"]
    phrases: list[str] = Field(min_length=2, description="A phrase for each class, in the order of the labels.")
    classifier_pooling: Literal["cls", "mean"] = Field(
        "mean", description="Aggregation of the real tokens' states into one vector, as in the training of the encoder."
    )
    scale: PositiveFloat = Field(
        20.0,
        description="Probabilities are a softmax over the cosines times this; the classes themselves depend on the "
        "cosines alone.",
    )

    @check
    def _phrases_tell_classes_apart(self) -> Iterator[str]:
        if len(set(self.phrases)) < len(self.phrases) or not all(phrase.strip() for phrase in self.phrases):
            yield f"phrases = {self.phrases}; expected a different phrase for each class. Give each one"

    def problems_of_labels(self, labels: Sequence[str]) -> Iterator[str]:
        """See `TaskSettings.problems_of_labels`."""
        if len(self.phrases) != len(labels):
            yield (
                f"phrases: {len(self.phrases)} for the classes {', '.join(labels)}. Give one for each, in the order of "
                "the labels"
            )
