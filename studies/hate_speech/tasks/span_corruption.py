"""Span corruption: pretraining of models that generate text, and adaptation to a dataset's texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lib.backbones.settings import Ability
from lib.core.settings import PositiveFloat
from lib.tasks import contract
from lib.tasks.language_model import LanguageModelTask
from lib.tasks.settings import TaskSettings
from studies.hate_speech.tokens.dropping import dropped

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Settings(TaskSettings):
    """Span corruption: spans of a text are removed, and a model that reads the rest generates them."""

    trains_on: ClassVar[Ability | None] = "generated_text"
    head: ClassVar[str | None] = "text_to_text"

    kind: Literal["span_corruption"]
    corruption_rate: float = Field(0.15, gt=0, lt=1)
    """Share of a document's tokens that is removed. [CLS], [SEP] and other enclosing tokens stay."""
    mean_span_length: PositiveFloat = Field(3.0, ge=1)
    """Mean length of the removed spans, in tokens. It determines the number of spans, and each takes a sentinel token
    of the tokeniser (`sentinels`)."""

    def predicted_share(self) -> float:
        """See `TaskSettings.predicted_share`; the sentinel before each span is written, too."""
        return self.corruption_rate * (1 + 1 / self.mean_span_length)

    def sentinels(self, tokens: int) -> int:
        """See `TaskSettings.sentinels`."""
        return dropped(tokens, self.corruption_rate, self.mean_span_length)[1]


class Task(LanguageModelTask):
    """Generate the removed spans of a document."""

    parameters: Settings

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`."""
        return "AutoModelForSeq2SeqLM"

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`.

        Raises:
            ConfigError: the tokeniser has no sentinel token, or no token that ends a text.
        """
        from studies.hate_speech.tokens.span_corruption import SpanCorruption, SpanCorruptionCollator

        corruption = SpanCorruption(
            tokenizer,
            seed=self.seed,
            rate=self.parameters.corruption_rate,
            mean_length=self.parameters.mean_span_length,
        )
        return SpanCorruptionCollator(corruption, tokenizer.pad_token_id)
