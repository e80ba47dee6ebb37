"""The mask of attention that is about to open.

Shapes: B batch, N tokens, D hidden size.
"""

import torch
from torch import Tensor
from transformers import PretrainedConfig

from lib.backbones.pretrained.families import FAMILIES


def half_open(
    config: PretrainedConfig, states: Tensor, attention_mask: Tensor | None, opened: float, causal_window: int | None
) -> Tensor | dict[str, Tensor]:
    """Return the mask that lets a token see `opened` later tokens.

    Args:
        config: of the architecture, opened.
        states: that the mask is for [B, N, D].
        attention_mask: [B, N], 1 = real token; None = all real.
        opened: share of a document's length, from 0, causal, to 1, bidirectional.
        causal_window: distance from which on a causal token sees nothing any more in layers with a window. The window
            to the left becomes that of the opened model evenly, too: where both differ, it is in between.

    Returns:
        Additive mask [B, 1, N, N], or one for each type of layer where the architecture has several.
    """
    rows, tokens = states.shape[:2]
    places = torch.arange(tokens, device=states.device)
    ahead = places[None, :] - places[:, None]
    real = states.new_ones(rows, tokens, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    farthest = (opened * (real.sum(dim=1) - 1)).floor()  # by the document's own length, whatever it is padded to
    sees = (ahead <= farthest[:, None, None])[:, None] & real[:, None, None, :]
    window = getattr(config, "sliding_window", None)
    near = sees
    if window is not None and causal_window is not None:
        open_window = window + FAMILIES[config.model_type].includes_width
        behind = causal_window + int(opened * (open_window - causal_window))
        near = sees & (ahead > -behind) & (ahead < open_window)
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        return _additive(near, states.dtype)
    masks = {"full_attention": sees, "sliding_attention": near}
    return {kind: _additive(masks[kind], states.dtype) for kind in set(kinds)}


def _additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    # Not minus infinity, so that a row that sees nothing, as at padding, stays finite.
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill(~sees, torch.finfo(dtype).min)
