"""Masked language modelling: pretraining, and adaptation to a dataset's texts."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase

from lib.data.labels import IGNORED
from lib.data.masking import MlmCollator, TokenMasker
from lib.evaluation.perplexity import perplexity
from lib.tasks import contract
from lib.tasks.masked_lm.parameters import Parameters


class Task(contract.Task):
    """Predict tokens from their context. The best epoch has the lowest loss on validation."""

    parameters: Parameters

    auto_model: ClassVar[str] = "AutoModelForMaskedLM"
    best: ClassVar[str] = "loss"
    greater_is_better: ClassVar[bool] = False

    def collator(self, tokenizer: PreTrainedTokenizerBase) -> contract.Collator:
        """See `lib.tasks.contract.Task.collator`."""
        masker = TokenMasker.of(
            tokenizer,
            seed=self.seed,
            mask_probability=self.parameters.mask_probability,
            mask_token_probability=self.parameters.mask_token_probability,
            random_token_probability=self.parameters.random_token_probability,
        )
        return MlmCollator(masker, tokenizer.pad_token_id)

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return, in place of logits and labels, the batch's summed loss and number of predicted tokens."""
        predicted = inputs["labels"].ne(IGNORED).sum().view(1)
        with torch.no_grad():
            loss = model(**inputs).loss
        return None, loss.float().view(1) * predicted, predicted

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the mean loss of a predicted token, not the mean over batches of unequal size, and the perplexity."""
        loss = float(prediction.predictions.sum() / max(prediction.label_ids.sum(), 1))
        return {"loss": loss, "perplexity": perplexity(loss)}
