"""The delta rule in both directions, by scans in chunks; must equal `reference.py`.

Shapes: B batch, H heads, N tokens, d head width.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, softplus

from studies.since_2023.attention.delta.settings import Settings
from studies.since_2023.learned import Recurrent
from studies.since_2023.scans import both_ways, delta_scan


class Mechanism(Recurrent):
    """Read S_t + S'_{t+1} by q_t, where S_t = a_t (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T.

    S' comes from the last token and has not taken in the token itself. Queries and keys are divided by their norms.
    b_t = sigmoid(w x_t); with `gated`, a_t = exp(-exp(A) softplus(u x_t + c)), otherwise 1. Each direction and head has
    its own w, u, A and c.

    Source:
        Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", section 2; with
        `gated` Yang et al. 2024, "Gated Delta Networks: Improving Mamba2 with Delta Rule", section 3, whose output
        has the gate, too. They are about decoders, with one direction, and apply a short convolution and silu to
        queries, keys and values, which we leave out. Their first rates exp(A) reach down to 0.
    """

    settings: Settings

    def first_weights(self) -> dict[str, Tensor]:
        """See `Learned.first_weights`."""
        shape, number = (2, self.width, self.num_heads), 2 * self.num_heads
        first = super().first_weights() | {"strength": self.linear("strength", *shape)}
        if self.settings.gated:
            first |= {"steps": self.linear("steps", *shape), "bias": self.first_steps(number)}
            first["rate"] = self.uniform("rate", 1, 16, number).log()
        return first

    def mix(self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, states: Tensor) -> Tensor:
        """See `Recurrent.mix`."""
        strength = self.projected(states, "strength").sigmoid()
        log_decay = torch.zeros_like(strength)
        if self.settings.gated:
            steps = softplus(self.projected(states, "steps") + self.of_heads("bias", strength))
            log_decay = -self.of_heads("rate", strength).exp() * steps
        rows = (normalize(query, dim=-1), normalize(key, dim=-1), value, log_decay, strength)
        return both_ways(delta_scan, real, *rows, own=True, size=self.settings.chunk_size)
