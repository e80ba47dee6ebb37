"""Ragged token ids to rectangular tensors.

Shapes: B batch, N tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lib.core.errors import DataError
from lib.core.labels import IGNORED

LENGTHS = 64
"""Lengths of rounded batches are multiples of it."""

MASKS = ("attention_mask", "pair_mask")
"""What batches call the masks of their sequences, 1 = real token."""


def pad_ids(
    rows: Sequence[Sequence[int] | np.ndarray], length: int, pad_token_id: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `rows`, padded on the right.

    Args:
        rows: token ids, none longer than `length`.
        length: N, tokens.
        pad_token_id: id of the padding.

    Returns:
        ids [B, N] and attention mask [B, N] (1 = real token), both int64.
    """
    ids = np.full((len(rows), length), pad_token_id, dtype=np.int64)
    mask = np.zeros((len(rows), length), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def pad_examples(examples: Sequence[Mapping[str, Any]], pad_token_id: int) -> dict[str, torch.Tensor]:
    """Return the input tensors of a batch, as long as its longest example.

    Args:
        examples: each with `id` and `input_ids`, perhaps with `token_type_ids`.
        pad_token_id: id of the padding.

    Returns:
        input_ids [B, N], attention_mask [B, N] and, if the examples have any, token_type_ids [B, N], 0 at padding.

    Raises:
        DataError: an example has no token: attention over padding only means nothing.
    """
    if empty := [example["id"] for example in examples if not len(example["input_ids"])]:
        raise DataError(f"document(s) {empty} have no token. Expected at least one; remove them and tokenise again.")
    rows = [example["input_ids"] for example in examples]
    length = max(map(len, rows))
    ids, mask = pad_ids(rows, length, pad_token_id)
    batch = {"input_ids": ids, "attention_mask": mask}
    if "token_type_ids" in examples[0]:
        batch["token_type_ids"], _ = pad_ids([example["token_type_ids"] for example in examples], length, 0)
    return batch


def known_beforehand(batch: Mapping[str, torch.Tensor], *, scored: bool) -> dict[str, torch.Tensor]:
    """Return a batch with facts about its tensors that a model would otherwise wait for a GPU to learn.

    Args:
        batch: of a collator, on the host.
        scored: whether labels are of tokens [B, N], and the model takes their places.

    Returns:
        The batch without the masks of which all tokens are real and, if asked for, with `scored`, the places [L] in the
        batch laid flat that have a label.
    """
    result = {name: each for name, each in batch.items() if not (name in MASKS and each.all())}
    if scored:
        result["scored"] = (batch["labels"].flatten() != IGNORED).nonzero().squeeze(1)
    return result


def rounded(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a batch with padding up to a multiple of `LENGTHS` tokens, so that few shapes occur.

    Places of labels, if they are known, are repeated up to a multiple of a 32nd of all tokens: by the place of a token
    without a label, so that they count as before. Without such a token, the batch stays as it is.

    Args:
        batch: of one text each, see `known_beforehand`, which comes before; labels are of tokens [B, N] if `scored` is
            there.
    """
    length = batch["input_ids"].shape[1]
    missing = -length % LENGTHS
    result, scored = dict(batch), "scored" in batch
    if missing:
        result.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        padding = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0} | ({"labels": IGNORED} if scored else {})
        for name in padding.keys() & result.keys():
            result[name] = torch.nn.functional.pad(result[name], (0, missing), value=padding[name])
    if scored:
        unscored = (result["labels"].flatten() == IGNORED).nonzero()
        if not len(unscored):
            return dict(batch)
        rows = batch["scored"] // length
        places = rows * (length + missing) + batch["scored"] % length
        step = max(1, result["labels"].numel() // 32)
        result["scored"] = torch.cat([places, unscored[0].expand(-len(places) % step)])
    return result
