"""Causal language modelling, the pretraining of decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from lib.backbones.settings import Ability
from lib.tasks import contract
from lib.tasks.language_model import LanguageModelTask
from lib.tasks.settings import TaskSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Settings(TaskSettings):
    """Causal language modelling: every token is predicted from those before it."""

    trains_on: ClassVar[Ability | None] = "past_states"
    head: ClassVar[str | None] = "masked_lm"  # the same head; only its context differs

    kind: Literal["causal_lm"]

    def predicted_share(self) -> float:
        """See `TaskSettings.predicted_share`."""
        return 1.0


class Task(LanguageModelTask):
    """Predict every token from those before it."""

    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        from lib.tokens.batches import NextTokenCollator

        return NextTokenCollator(tokenizer.pad_token_id)
