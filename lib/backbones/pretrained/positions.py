"""Positions of a published model: more than it was trained with, and those that depend on a text's length.

Shapes: B batch, N tokens, P rows of a table of positions, D hidden size, or, of cosines and sines, width of a head.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from lib.backbones.pretrained.families import Family


def longer(published: PretrainedConfig, family: Family, *, length: int, fill: str) -> dict[str, Any]:
    """Return the fields of an architecture that make it read longer texts.

    Args:
        published: configuration of the architecture as it was published.
        family: its family.
        length: tokens that a text may have.
        fill: see `lib.backbones.pretrained.settings.Positions`.
    """
    if fill == "tiled":
        return {"max_position_embeddings": length + family.unused_positions}
    reach, rotary = published.max_position_embeddings, published.rope_parameters
    stretched = {"rope_type": fill, "factor": length / reach, "original_max_position_embeddings": reach}
    if "full_attention" in rotary:  # layers with a window see no further than before
        parameters = rotary | {"full_attention": rotary["full_attention"] | stretched}
    else:
        parameters = rotary | stretched
    return {"max_position_embeddings": length, "rope_parameters": parameters}


def choose_for_each_text(inner: nn.Module) -> None:
    """Let rotary positions with factors by length (`longrope`) follow from each text's own length.

    transformers takes those of the longest text in a batch for all, so that a text's states would depend on the others.

    Args:
        inner: base model of transformers; one with other positions stays as it is.
    """
    rotary = getattr(inner, "rotary_emb", None)
    kinds = getattr(rotary, "rope_type", None)  # one, or one for each type of layer
    if rotary is not None and "longrope" in (kinds.values() if isinstance(kinds, dict) else [kinds]):
        rotary.register_forward_hook(_of_each_text, with_kwargs=True)


def _of_each_text(
    rotary: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], together: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [B, N, D], those of each text computed by itself; a hook of `register_forward_hook`."""
    named = dict(zip(("x", "position_ids", "layer_type"), arguments, strict=False)) | named
    texts = named["position_ids"].split(1)
    if len(texts) == 1:
        return together
    alone = [rotary.forward(**named | {"position_ids": positions}) for positions in texts]
    cosines, sines = (torch.cat(parts) for parts in zip(*alone, strict=True))
    return cosines, sines


def tiled(table: Tensor, rows: int, first: int) -> Tensor:
    """Return a longer table of positions: the table, repeated.

    Args:
        table: as published [P, D].
        rows: rows of the longer table.
        first: row of a text's first token; those before it belong to no token and are not repeated.

    Returns:
        [rows, D]; the first P rows are those that were published.

    Source:
        Beltagy et al. 2020 (https://arxiv.org/abs/2004.05150), section 5: Longformer copies the 512 positions of
        RoBERTa several times.
    """
    tokens = table[first:]
    copies = -(-(rows - first) // len(tokens))
    return torch.cat([table[:first], tokens.repeat(copies, 1)])[:rows]
