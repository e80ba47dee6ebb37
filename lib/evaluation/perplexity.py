"""The usual reading of a language-model loss; apart from classification metrics, which pretraining never runs."""

import math


def perplexity(loss: float) -> float:
    """Return the perplexity that belongs to a mean cross-entropy in nats; infinite where it overflows."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf
