"""More positions than a published model was trained with.

Shapes: P rows of a table of positions, D hidden size.
"""

from typing import Any

import torch
from torch import Tensor
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
