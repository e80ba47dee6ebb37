"""The loss of all tasks, in a form that does not depend on how a batch is split."""

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(logits: Tensor, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return the sum of the items' cross-entropies, divided by the number of items of the whole batch.

    So the gradients of the parts of an accumulated batch add up to those of the batch in one piece.

    Args:
        logits: [L, C].
        labels: class of each item [L]; -100 = not an item.
        num_items_in_batch: items over all parts of the batch; None = those at hand.

    Returns:
        Scalar in float32; a zero with a gradient path if there is no item.
    """
    if num_items_in_batch is None:
        num_items_in_batch = (labels != -100).sum()
    total = functional.cross_entropy(logits.float(), labels, reduction="sum")
    if isinstance(num_items_in_batch, Tensor):
        return total / num_items_in_batch.to(logits.device).clamp(min=1)
    return total / max(num_items_in_batch, 1)


def select(rows: Tensor, labels: Tensor, scored: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the rows of tokens that have a label [L, D], and their labels [L].

    Args:
        rows: [B, N, D].
        labels: [B, N]; -100 = none.
        scored: places of labels in the batch laid flat [L]; None = they are looked for, and a GPU is waited for.
    """
    labels = labels.flatten()
    if scored is None:
        scored = (labels != -100).nonzero().squeeze(1)
    return rows.flatten(0, 1).index_select(0, scored), labels.index_select(0, scored)


def squared_error(states: Tensor, targets: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """Return the mean squared difference of items, such as the states of tokens; each item counts as its mean.

    Args:
        states: [L, D].
        targets: [L, D].
        num_items_in_batch: items over all parts of the batch; None = those at hand.

    Returns:
        Scalar in float32.
    """
    total = (states.float() - targets.float()).square().mean(dim=-1).sum()
    return total / (len(states) if num_items_in_batch is None else num_items_in_batch)


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


def cross_entropy_of_weights(weights: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each query's attention weights with the targets, as the mean over heads.

    Args:
        weights: weights of the model [B, H, N, M], in float32 at least; one that is 0 counts as the smallest normal
            number, without a gradient.
        targets: as `weights`; each query's add up to 1.

    Returns:
        [B, N], in nats.

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine": its distillation of attention weights.
    """
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return -(targets * logarithms).sum(-1).mean(1)
