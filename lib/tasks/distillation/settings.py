"""Settings of distillation."""

from typing import Literal

from pydantic import Field

from lib.core.settings import Fraction, PositiveFloat
from lib.tasks.classifier import ClassifierSettings


class Settings(ClassifierSettings):
    """Classification of whole documents, learnt from their labels and from the scores of a trained model, the teacher.

    The loss is `(1 - weight) * cross-entropy + weight * temperature^2 * KL(teacher || student)`, both distributions
    softened by the temperature.
    """

    kind: Literal["distillation"]
    teacher: str = Field(description="Name of the teacher, which trains on the same data at the same stage.")
    temperature: PositiveFloat = Field(
        2.0, description="Divisor of the scores of both models; a higher one makes probabilities more equal."
    )
    weight: Fraction = Field(0.5, description="Share of the teacher in the loss; the labels have the rest.")

    def taught_by(self) -> str | None:
        """See `TaskSettings.taught_by`."""
        return self.teacher
