"""Layers of transformers' models that see a window to both sides, computed in linear time: the same numbers.

transformers computes such a layer under an N x N mask. Long texts take the blocks of `lib.attention.window` instead,
with the model's own width. Positions, such as rotary ones, are in queries and keys by then.

Shapes: B batch, H heads, N tokens, d head width.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.utils.import_utils import is_tracing

from lib.attention.contract import Attention, build, for_every_head
from lib.attention.settings import MECHANISMS

FROM_TOKENS, FROM_REACHES = 384, 3
"""On a CPU, blocks are faster than a mask from 384 tokens plus 3 for each token that is seen to one side. Measured with
8 heads of width 64, reaches of 4 to 512 tokens; see docs/published_models.md."""


def mask_of_layers(*, local_size: int | None = None, **arguments: Any) -> Tensor | None:
    """Return the mask of transformers' SDPA, or the padding [B, N] of layers that blocks compute.

    Args:
        local_size: tokens that a windowed layer sees to either side; None = the layers have no window.
        arguments: those that transformers gives to functions of masks.
    """
    if local_size is None or not _in_blocks(local_size, arguments):
        return sdpa_mask(local_size=local_size, **arguments)
    real = arguments["attention_mask"]
    if real is None:  # never None, which says that a layer sees all
        size = arguments["batch_size"], arguments["q_length"]
        real = torch.ones(size, dtype=torch.bool, device=arguments["device"])
    return real


def _in_blocks(reach: int, arguments: Mapping[str, Any]) -> bool:
    """Return whether blocks compute a windowed layer, and faster than a mask; arguments as of `mask_of_layers`."""
    tokens, real = arguments["q_length"], arguments["attention_mask"]
    # transformers allows no skip where it hides more than padding and the window (Gemma 3, causal layers).
    may_skip = arguments.get("allow_is_bidirectional_skip", False)
    return (
        may_skip
        and (tokens, 0) == (arguments["kv_length"], arguments["q_offset"])
        and torch.device(arguments["device"]).type == "cpu"
        and not is_tracing(real)  # else the decision for one text would hold for all
        and tokens >= FROM_TOKENS + FROM_REACHES * reach
        and (real is None or _is_one_stretch(real))
    )


def _is_one_stretch(real: Tensor) -> bool:
    """Return whether the real tokens of each row [B, N] stand together; else blocks, which count only them, differ."""
    starts = real[:, 0].long() + (real[:, 1:] & ~real[:, :-1]).sum(dim=1)
    return bool((starts <= 1).all())


def attend_in_layer(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend exactly, in blocks where `mask_of_layers` returned the padding of a windowed layer, else by SDPA.

    Args:
        module: attention module of a model; its configuration has the window.
        query: [B, H, N, d].
        key: as `query`; heads may be fewer, each then serves several of the query's.
        value: as `key`.
        attention_mask: the result of `mask_of_layers`, or a mask [B, 1, N, N], for SDPA.
        dropout: probability of dropping an attention weight, 0 in evaluation.
        scaling: factor of the scores; None = 1/sqrt(d).
        others: arguments of transformers' SDPA.

    Returns:
        Output [B, N, H, d], and no weights.
    """
    if attention_mask is None or attention_mask.dim() != 2:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
    config: Any = module.config
    window = _window(config.sliding_window, query.shape[1], query.shape[3], dropout)
    key, value = for_every_head(query, key), for_every_head(query, value)
    padded = None if attention_mask.all() else attention_mask
    return window(with_scaling(query, scaling), key, value, padded).transpose(1, 2).contiguous(), None


def with_scaling(query: Tensor, scaling: float | None) -> Tensor:
    """Return the query that makes a mechanism scale scores by `scaling`, since it scales them by 1/sqrt(d)."""
    width = query.shape[3]
    return query if scaling in (None, width**-0.5) else query * (scaling * width**0.5)


@cache
def _window(reach: int, heads: int, width: int, dropout: float) -> Attention:
    """Return the mechanism of a window, which has no weights, stays in training mode, and drops weights as it is told.

    Args:
        reach: tokens that are seen to either side.
        heads: H.
        width: d.
        dropout: 0 whenever the model is not in training.
    """
    parameters = MECHANISMS.parse({"kind": "window", "width": 2 * reach})
    return build(parameters, num_heads=heads, head_size=width, layer=0, seed=0, dropout=dropout)
