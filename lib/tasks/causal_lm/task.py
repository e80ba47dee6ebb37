"""Causal language modelling, the pretraining of decoders."""

from transformers import PreTrainedTokenizerBase

from lib.data.next_token import NextTokenCollator
from lib.tasks import contract
from lib.tasks.causal_lm.settings import Settings
from lib.tasks.language_model import LanguageModelTask


class Task(LanguageModelTask):
    """Predict every token from those before it."""

    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        return NextTokenCollator(tokenizer.pad_token_id)
