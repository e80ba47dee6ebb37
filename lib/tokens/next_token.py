"""Prediction of a token from the state before it, as causal language models do.

Shapes: B batch, N tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lib.core.labels import IGNORED
from lib.tokens.batches import pad_examples


def at_previous(labels: Tensor) -> Tensor:
    """Return labels [B, N], each moved to the position before its token's; the first token has none to move to."""
    return torch.cat([labels[:, 1:], labels.new_full((len(labels), 1), IGNORED)], dim=1)


class NextTokenCollator:
    """Makes batches that predict every token but the first, as long as their longest example.

    Args:
        pad_token_id: id of the padding.
    """

    def __init__(self, pad_token_id: int) -> None:
        self._pad_token_id = pad_token_id

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Return input_ids, attention_mask and labels, each [B, N].

        Raises:
            DataError: an example has no token.
        """
        batch = pad_examples(examples, self._pad_token_id)
        tokens = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return batch | {"labels": at_previous(tokens)}
