"""Common base of tasks that predict tokens."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from transformers import EvalPrediction, PreTrainedModel

from lib.backbones.heads.masked_lm import MaskedLM
from lib.data.labels import IGNORED
from lib.evaluation.metrics import perplexity
from lib.tasks import contract


class LanguageModelTask(contract.Task):
    """Predict tokens. The best epoch has the lowest loss on validation."""

    auto_model: ClassVar[str] = MaskedLM.auto_model  # its scores are at the positions of the labels
    best: ClassVar[str] = "loss"
    greater_is_better: ClassVar[bool] = False

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return, instead of logits and labels, the batch's summed loss and number of predicted tokens."""
        predicted = inputs["labels"].ne(IGNORED).sum().view(1)
        with torch.no_grad():
            loss = model(**inputs).loss
        return None, loss.float().view(1) * predicted, predicted

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the mean loss over predicted tokens (not over batches of unequal size), and the perplexity."""
        loss = float(prediction.predictions.sum() / max(prediction.label_ids.sum(), 1))
        return {"loss": loss, "perplexity": perplexity(loss)}
