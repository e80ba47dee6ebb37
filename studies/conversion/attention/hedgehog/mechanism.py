"""Hedgehog by torch's operations, on every device: learned positive features in place of the softmax kernel.

Linear in N in time and memory; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

from typing import Any

import torch
from torch import Tensor

from lib.attention.contract import Attention, without_padding
from studies.conversion.attention.feature_map import FeatureMap
from studies.conversion.attention.hedgehog.settings import Settings


class Mechanism(Attention):
    """Attention with the kernel phi(q) . phi(k), each phi with a matrix W of its own per head.

    `phi` = `softmax`: the softmax of [Wx, -Wx]; `exp`: exp([Wx, -Wx]). A head has 2 d^2 weights, which start as
    identities. Like stabilised FAVOR+, this never divides: each key column is normalised over the row's real tokens,
    its normaliser moves to the queries, and each query is normalised over the columns. Both cancel in the result, so
    nothing overflows. A factor of all features of a query cancels, too, so queries need no softmax of their own.

    Source:
        Zhang et al. 2024, "The Hedgehog & the Porcupine: Expressive Linear Attentions with Softmax Mimicry".
    """

    settings: Settings
    needs_clean_padding = False

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.of_queries, self.of_keys = (FeatureMap(self.num_heads, self.head_size) for _ in range(2))

    def reset_features(self) -> None:
        """Set the feature maps to their first weights."""
        self.of_queries.reset_features()
        self.of_keys.reset_features()

    def attend(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None) -> Tensor:
        """See `Attention.attend`; computed in float32 at least, also under autocast."""
        precision = torch.promote_types(value.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            reading, written = self._features(query.to(precision), key.to(precision), real)
            return reading @ (written.mT @ value.to(precision))

    def weights(self, query: Tensor, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """See `Attention.weights`; one product of the features, with a gradient by the feature maps."""
        precision = torch.promote_types(query.dtype, torch.float32)
        query, key = query.to(precision), key.to(precision)
        real = None if attention_mask is None else attention_mask.bool()
        if real is not None:
            query, key = without_padding(query, real), without_padding(key, real)
        with torch.autocast(query.device.type, enabled=False):
            reading, written = self._features(query, key, real)
            weights = reading @ written.mT
        return weights if real is None else without_padding(weights, real)

    def _features(self, query: Tensor, key: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return normalised features of queries and keys, [B, H, N, 2 d] each, whose products are the weights.

        Those of a query add up to 1 over the columns, those of the keys in a column over the real tokens.
        """
        reading, written = self.of_queries(query), self.of_keys(key)
        if self.settings.phi == "softmax":
            written = written.log_softmax(-1)
        if real is not None:
            # A row without real tokens sees its (zero) padding: no softmax over nothing.
            seen = real | ~real.any(-1, keepdim=True)
            written = written.masked_fill(~seen[:, None, :, None], float("-inf"))
        sums = written.logsumexp(2, keepdim=True)
        return (reading + sums).softmax(-1), (written - sums).exp()
