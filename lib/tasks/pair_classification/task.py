"""Classification of pairs of texts that are read separately."""

from typing import ClassVar

from transformers import PreTrainedTokenizerBase

from lib.backbones.heads.pair_classification import PairClassification
from lib.data.classification import PairCollator
from lib.tasks import contract
from lib.tasks.document_classification import DocumentClassification


class Task(DocumentClassification):
    """Predict the class of a pair of texts."""

    auto_model: ClassVar[str] = PairClassification.auto_model

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return PairCollator(tokenizer.pad_token_id)
