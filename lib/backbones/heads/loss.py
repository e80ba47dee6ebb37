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
    items = torch.as_tensor(num_items_in_batch, device=logits.device).clamp(min=1)
    return functional.cross_entropy(logits.float(), labels, reduction="sum") / items
