"""Masked language modelling: pretraining, and adaptation to a dataset's texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lib.core.settings import Fraction, PositiveFloat, check
from lib.preparing.settings.document_form import Texts
from lib.tasks import contract
from lib.tasks.language_model import LanguageModelTask
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Settings(TaskSettings):
    """Masked language modelling: selection and replacement of the predicted tokens."""

    texts: ClassVar[tuple[Texts, ...]] = ("single", "together")

    kind: Literal["masked_lm"]
    objective: Literal["mlm", "mntp"] = "mlm"
    """Position that predicts a token: `mlm`, its own; `mntp`, the one before it, as the head of a causal language model
    learnt to."""
    mask_probability: Fraction = 0.15
    """Share of the ordinary tokens that are predicted."""
    masking: Literal["random", "spans", "words"] = "random"
    """Chosen units: `random`, single tokens; `spans`, several tokens in a row; `words`, all tokens of a word. The
    tokens of a span or a word are replaced in the same way. WordPiece separates words at punctuation, byte-level BPE
    and SentencePiece only at white space."""
    span_length: PositiveFloat = 3.0
    """`spans`: mean of the Poisson distribution of their lengths in tokens; no span is empty."""
    mask_token: str | None = Field(None, min_length=1)
    """Token that replaces a masked one, as the vocabulary spells it; null = the tokeniser's own mask token, which the
    tokenisers of most decoders lack. Where it occurs in a text, it is never predicted."""
    mask_token_probability: Fraction = 0.8
    """Share of these that the mask token replaces."""
    random_token_probability: Fraction = 0.1
    """Share of these that a random token replaces."""

    @check
    def _shares_fit(self) -> Iterator[str]:
        total = self.mask_token_probability + self.random_token_probability
        if total > 1:
            yield f"mask_token_probability + random_token_probability = {total:g}; expected at most 1"

    def predicted_share(self) -> float:
        """See `TaskSettings.predicted_share`."""
        return self.mask_probability


class Task(LanguageModelTask):
    """Predict tokens from their context."""

    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        from lib.tokens.masking import MlmCollator, TokenMasker

        masker = TokenMasker.of(tokenizer, seed=self.seed, **self.parameters.model_dump(exclude={"kind", "objective"}))
        return MlmCollator(masker, tokenizer.pad_token_id, at_previous=self.parameters.objective == "mntp")
