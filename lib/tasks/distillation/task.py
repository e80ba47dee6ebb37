"""Classification of whole documents, learnt from labels and from another model's scores."""

from typing import ClassVar

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lib.backbones.heads.loss import distillation
from lib.backbones.heads.sequence_classification import SequenceClassification
from lib.data.classification import TaughtCollator
from lib.tasks import contract
from lib.tasks.distillation.settings import Settings
from lib.tasks.document_classification import DocumentClassification


class Task(DocumentClassification):
    """Learn the class of a document from its label and the scores of a teacher.

    Source: Hinton, Vinyals and Dean 2015, "Distilling the Knowledge in a Neural Network".
    """

    auto_model: ClassVar[str] = SequenceClassification.auto_model
    beside: ClassVar[str | None] = "teacher_logits"
    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return TaughtCollator(tokenizer.pad_token_id)

    def loss(self, loss: Tensor, logits: Tensor, beside: Tensor, items: Tensor | int | None) -> Tensor:
        """See `lib.tasks.contract.Task.loss`."""
        settings = self.parameters
        taught = distillation(logits, beside, settings.temperature, items)
        return (1 - settings.weight) * loss + settings.weight * taught
