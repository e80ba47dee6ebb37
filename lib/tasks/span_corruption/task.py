"""Span corruption: pretraining of models that generate text, and adaptation to a dataset's texts."""

from typing import ClassVar

from transformers import PreTrainedTokenizerBase

from lib.data.span_corruption import SpanCorruption, SpanCorruptionCollator
from lib.tasks import contract
from lib.tasks.language_model import LanguageModelTask
from lib.tasks.span_corruption.settings import Settings


class Task(LanguageModelTask):
    """Generate the removed spans of a document."""

    auto_model: ClassVar[str] = "AutoModelForSeq2SeqLM"
    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`.

        Raises:
            ConfigError: the tokeniser has no sentinel token, or no token that ends a text.
        """
        corruption = SpanCorruption(
            tokenizer,
            seed=self.seed,
            rate=self.parameters.corruption_rate,
            mean_length=self.parameters.mean_span_length,
        )
        return SpanCorruptionCollator(corruption, tokenizer.pad_token_id)
