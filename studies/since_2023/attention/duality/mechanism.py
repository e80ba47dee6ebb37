"""State space duality in both directions, by scans in chunks; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from studies.since_2023.learned import Recurrent
from studies.since_2023.scans import both_ways, gated_scan


class Mechanism(Recurrent):
    """Read S_{t-1} + S'_{t+1} by q_t / sqrt(d), and add c_t v_t; S_t = exp(-A s_t) S_{t-1} + s_t k_t v_t^T.

    S' comes from the last token. The step s_t = softplus(w x_t + b) has a w for each direction and head; A and b are of
    a head. The share of the token itself is c_t = u x_t + c, for each head.

    Source:
        Hwang et al. 2024, "Hydra: Bidirectional State Space Models Through Generalized Matrix Mixers", section 3, with
        the scan of Dao and Gu 2024, "Transformers are SSMs" (Mamba-2). Differences: there, a convolution comes first,
        and the direction of a neighbour reads each state, which the convolution makes up for; each scan has directions
        of its own, which all heads share; the share of a token depends on its values; the norm is over all heads.
        `lib.backbones.ssm` is that layer.
    """

    def first_weights(self) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        first, ones = super().first_weights(), torch.ones(self.num_heads, device="cpu")
        for name, number in (("steps", 2), ("own", 1)):
            first[name] = self.linear(name, number, self.width, self.num_heads)
        return first | {"bias": self.first_steps(self.num_heads), "rate": 0 * ones, "own_bias": ones}

    def mix(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, states: Tensor) -> Tensor:
        """See `Recurrent.mix`."""
        steps, shares = self.projected(states, "steps"), self.projected(states, "own")
        steps = softplus(steps + self.of_heads("bias", steps))  # [2, B, H, N, 1]
        log_decay = -self.of_heads("rate", steps).exp() * steps
        rows = (query * self.head_size**-0.5, key, value * steps, log_decay)
        others = both_ways(gated_scan, real, *rows, own=False, size=self.settings.chunk_size)
        return others + (shares + self.of_heads("own_bias", shares))[0] * value
