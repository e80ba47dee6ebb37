"""Strided attention, dense and in float64: the reference for tests of `mechanism.py`. No run uses it."""

import torch
from torch import Tensor

from lib.attention.reference import softmax_where, text_by_text
from lib.attention.strided.mechanism import Mechanism

EXAMPLES = {"strided-s18": {"kind": "strided", "stride": 18}}


@text_by_text
def reference(mechanism: Mechanism, query: Tensor, key: Tensor, value: Tensor, scores: Tensor) -> Tensor:
    """Return attention under the dense mask of nearby tokens and multiples of the stride; see `text_by_text`.

    Source:
        Child et al. 2019, section 4.3.
    """
    stride, ranks = mechanism.settings.stride, torch.arange(query.shape[1])
    distances = (ranks[:, None] - ranks).abs()
    return softmax_where((distances < stride) | (distances % stride == 0), scores, value)
