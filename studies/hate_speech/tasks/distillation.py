"""Classification of whole documents, learnt from labels and from another model's scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from lib.core.settings import Fraction, PositiveFloat
from lib.tasks import contract
from lib.tasks.document_classification import ClassifierSettings, DocumentClassification

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


class Settings(ClassifierSettings):
    """Classification of whole documents, learnt from their labels and from the scores of a trained model, the teacher.

    The loss is `(1 - weight) * cross-entropy + weight * temperature^2 * KL(teacher || student)`, both distributions
    softened by the temperature.
    """

    kind: Literal["distillation"]
    teacher: str
    """Name of the teacher, which trains on the same data at the same stage."""
    temperature: PositiveFloat = 2.0
    """Divisor of the scores of both models; a higher one makes probabilities more equal."""
    weight: Fraction = 0.5
    """Share of the teacher in the loss; the labels have the rest."""

    def taught_by(self) -> str | None:
        """See `TaskSettings.taught_by`."""
        return self.teacher


class Task(DocumentClassification):
    """Learn the class of a document from its label and the scores of a teacher.

    Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network".
    """

    extra_input: ClassVar[str | None] = "teacher_logits"
    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        from lib.backbones.heads.sequence_classification import SequenceClassification

        return SequenceClassification.auto_model

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        from studies.hate_speech.taught import TaughtCollator

        return TaughtCollator(tokenizer.pad_token_id)

    def loss(self, loss: Tensor, logits: Tensor, extra: Tensor, items: Tensor | int | None) -> Tensor:
        """See `lib.tasks.contract.Task.loss`."""
        from studies.hate_speech.taught import distillation

        settings = self.parameters
        taught = distillation(logits, extra, settings.temperature, items)
        return (1 - settings.weight) * loss + settings.weight * taught
