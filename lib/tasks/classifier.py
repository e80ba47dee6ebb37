"""Settings of all tasks with a document classifier. The workflow reads them, so it imports no torch."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from lib.core.settings import PositiveInt, Probability, check
from lib.tasks.settings import TaskSettings


class ClassifierSettings(TaskSettings):
    """Settings of the head that maps hidden states to class scores."""

    labelled: ClassVar[bool] = True
    head: ClassVar[str | None] = "sequence_classification"
    predicts: ClassVar[bool] = True
    keeps: ClassVar[Literal["best", "last"]] = "best"
    splits: ClassVar[tuple[str, ...]] = ("train", "validation", "test")

    classifier_pooling: Literal["cls", "mean", "max", "min", "mean_step"] = Field(
        "mean", description="Aggregation of the real tokens' hidden states into one vector."
    )
    pooling_step: PositiveInt = Field(1, description="Stride of `mean_step`, in tokens.")
    classifier_head: Literal["bert", "roberta", "none"] = Field(
        "bert", description="`bert`: dense, tanh, dropout; `roberta`: dropout before that too; `none`: dropout only."
    )
    classifier_dropout: Probability = Field(0.1, description="Dropout before the last projection.")

    @check
    def _steps_have_a_pooling(self) -> Iterator[str]:
        if self.pooling_step > 1 and self.classifier_pooling != "mean_step":
            yield (
                f"pooling_step = {self.pooling_step} does nothing with classifier_pooling = "
                f"'{self.classifier_pooling}'. Choose 'mean_step', or leave the step out"
            )
