"""Perplexity, separate from classification metrics, which pretraining does not run."""

import math


def perplexity(loss: float) -> float:
    """Return the perplexity for a mean cross-entropy in nats; infinite if it overflows."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
