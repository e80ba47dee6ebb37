"""Batches with a teacher's scores, and the loss that learns them.

Shapes: L documents, C classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lib.tokens.batches import ClassificationCollator


class TaughtCollator(ClassificationCollator):
    """Makes batches of classification with a teacher's scores; arguments as of its base."""

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Return what `ClassificationCollator` returns and, of training documents, teacher_logits [B, C].

        Raises:
            DataError: an example has no token.
        """
        batch = super().__call__(examples)
        if "teacher_logits" in examples[0]:
            batch["teacher_logits"] = torch.tensor(np.stack([example["teacher_logits"] for example in examples]))
        return batch


def distillation(
    logits: Tensor, teacher_logits: Tensor, temperature: float, num_items_in_batch: Tensor | int | None = None
) -> Tensor:
    """Return the divergence of the items' distributions from the teacher's, times the square of the temperature.

    The square keeps its gradients about as large as those of the labels, whatever the temperature.

    Args:
        logits: logits of the student [L, C].
        teacher_logits: teacher logits of the teacher [L, C].
        temperature: both logits are divided by it.
        num_items_in_batch: items over all parts of the batch; None = those at hand.

    Returns:
        Scalar in float32, in nats.

    Source:
        Hinton, Vinyals and Dean 2015, section 2.
    """
    student, teacher = (
        functional.log_softmax(scores.float() / temperature, dim=-1) for scores in (logits, teacher_logits)
    )
    divergence = functional.kl_div(student, teacher, reduction="sum", log_target=True)
    return temperature**2 * divergence / (len(logits) if num_items_in_batch is None else num_items_in_batch)
