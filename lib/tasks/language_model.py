"""Common base of tasks that predict tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from lib.core.labels import IGNORED
from lib.tasks import contract

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import EvalPrediction, PreTrainedModel


class LanguageModelTask(contract.Task):
    """Predict tokens. The best epoch has the lowest loss on validation."""

    best: ClassVar[str] = "loss"
    greater_is_better: ClassVar[bool] = False

    @classmethod
    def auto_model(cls) -> str:
        """See `lib.tasks.contract.Task.auto_model`; scores of this model are at the positions of the labels."""
        from lib.backbones.heads.masked_lm import MaskedLM

        return MaskedLM.auto_model

    def prediction_step(
        self, model: PreTrainedModel, inputs: Mapping[str, Tensor]
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return, instead of logits and labels, the batch's summed loss and number of predicted tokens."""
        import torch

        predicted = inputs["labels"].ne(IGNORED).sum().view(1)
        with torch.no_grad():
            loss = model(**inputs).loss
        return None, loss.float().view(1) * predicted, predicted

    def metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        """Return the mean loss over predicted tokens (not over batches of unequal size), and the perplexity.

        Both are NaN if no token is predicted.
        """
        from lib.evaluation.metrics import perplexity

        predicted = prediction.label_ids.sum()
        loss = float(prediction.predictions.sum() / predicted) if predicted else math.nan
        return {"loss": loss, "perplexity": perplexity(loss)}
