"""Settings of classification by generation."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.settings import check
from lib.tasks.settings import TaskSettings


class Settings(TaskSettings):
    """Classification of whole documents by a model that generates a text per class."""

    trains_on: ClassVar[Ability | None] = "generated_text"
    labelled: ClassVar[bool] = True
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    kind: Literal["text_to_text"]
    prefix: str = ""
    """Text before each document, such as 'Classify this sentence as hateful or non-hateful: '."""
    targets: list[str] = Field(min_length=2)
    """Texts that the model learns to write, one per class, in the order of the dataset's labels."""
    reading: Literal["likelihood", "generation"] = "likelihood"
    """How the class is decided: `likelihood`, the likeliest of the texts; `generation`, the text that the model writes
    by always taking the likeliest token; any other text counts as wrong. Both are measured, and the probabilities are
    those of `likelihood`."""

    @check
    def _targets_differ(self) -> Iterator[str]:
        stripped = [target.strip() for target in self.targets]
        if "" in stripped:
            yield "targets: one is empty. Give each class a text"
        if len(set(stripped)) < len(stripped):
            yield f"targets = {self.targets}: two are the same. Give each class a different text"

    def label_errors(self, labels: Sequence[str]) -> Iterator[str]:
        """See `TaskSettings.label_errors`."""
        if len(self.targets) != len(labels):
            yield f"targets: {len(self.targets)} for {len(labels)} labels ({', '.join(labels)}). Give one for each"
