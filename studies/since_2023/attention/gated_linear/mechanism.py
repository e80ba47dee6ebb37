"""Gated linear attention in both directions, by scans in chunks; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor
from torch.nn import functional

from studies.since_2023.learned import Recurrent
from studies.since_2023.scans import both_ways, gated_scan

RANK = 16
"""Width between the two matrices of a decay."""


class Mechanism(Recurrent):
    """Read S_t + S'_{t+1} by q_t / sqrt(d), where S_t = diag(a_t) S_{t-1} + k_t v_t^T and S' comes from the last token.

    The first state has taken in the token itself, the second has not. a_t = sigmoid(W_2 W_1 x_t + b)^(1/16) for each
    channel of the keys, with weights of their own for each direction.

    Source:
        Yang et al. 2023, "Gated Linear Attention Transformers with Hardware-Efficient Training", equation 3 and section
        4.4, which also has the norm and the gate of the output. It is about decoders, with one direction, and its keys
        are half as wide as its values.
    """

    def first_weights(self) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        first, inner = super().first_weights(), self.num_heads * self.head_size
        first |= {"narrow": self.linear("narrow", 2, self.width, RANK), "wide": self.linear("wide", 2, RANK, inner)}
        return first | {"bias": torch.zeros(2 * inner, device="cpu")}

    def mix(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, states: Tensor) -> Tensor:
        """See `Recurrent.mix`."""
        narrow = states @ self.get_parameter("narrow")[:, None].to(states.dtype)  # [2, B, N, 16]
        logits = self.projected(narrow, "wide")
        log_decay = functional.logsigmoid(logits + self.of_heads("bias", logits)) / 16  # so that it starts near 0
        rows = (query * self.head_size**-0.5, key, value, log_decay)
        return both_ways(gated_scan, real, *rows, own=True, size=self.settings.chunk_size)
