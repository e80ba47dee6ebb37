"""Attention within a window, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import softmax_where, text_by_text
from lib.attention.window.mechanism import Mechanism

EXAMPLES = {
    "window-w8": {"kind": "window", "width": 8},
    "window-w40-g3-d2": {"kind": "window", "width": 40, "global_tokens": 3, "dilation": 2},
}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention under the dense mask of the windows and the global tokens; see `text_by_text`.

    Source:
        Beltagy et al. 2020, section 3.1 and figure 2.
    """
    settings, ranks = mechanism.settings, torch.arange(query.shape[1])
    distances = (ranks[:, None] - ranks).abs()
    near = (distances % settings.dilation == 0) & (distances // settings.dilation <= settings.width // 2)
    few = ranks < settings.global_tokens
    return softmax_where(near | few | few[:, None], scores, value)
