"""Masked language modelling: pretraining, and adaptation to a dataset's texts."""

from transformers import PreTrainedTokenizerBase

from lib.data.masking import MlmCollator, TokenMasker
from lib.tasks import contract
from lib.tasks.language_model import LanguageModelTask
from lib.tasks.masked_lm.settings import Settings


class Task(LanguageModelTask):
    """Predict tokens from their context."""

    parameters: Settings

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        masker = TokenMasker.of(
            tokenizer,
            seed=self.seed,
            mask_token=self.parameters.mask_token,
            masking=self.parameters.masking,
            span_length=self.parameters.span_length,
            mask_probability=self.parameters.mask_probability,
            mask_token_probability=self.parameters.mask_token_probability,
            random_token_probability=self.parameters.random_token_probability,
        )
        return MlmCollator(masker, tokenizer.pad_token_id, at_previous=self.parameters.objective == "mntp")
