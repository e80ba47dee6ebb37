"""The cost of a prediction: documents per CPU second, the time of one document by itself, and a price."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

WARM_UP = 8
"""Documents that are predicted first, one by one and together, without being measured."""
PASSES = 3
SECONDS = 1.0
"""Passes over all documents, and seconds of all passes, at least."""
MILLION = 1_000_000


class PredictionCost(NamedTuple):
    """The cost of predictions on the machine that measured it."""

    documents: int
    """Documents that were predicted."""
    documents_per_second: float
    """Documents that one core predicts in a second, many at once: the median over passes, of CPU time."""
    latency_p50_ms: float
    """Median of the milliseconds that one document takes by itself, of wall time."""
    latency_p99_ms: float
    """The milliseconds that 99 % of the documents do not exceed."""


def prediction_cost(predict: Callable[[Sequence[str]], object], texts: Sequence[str]) -> PredictionCost:
    """Measure the cost of a prediction, the way from the text to the scores included.

    Args:
        predict: predicts texts; it computes in one thread, so that the core that waits is the core that computes.
        texts: at least one.
    """
    for text in texts[:WARM_UP]:
        predict([text])
    predict(texts[:WARM_UP])
    seconds: list[float] = []
    start = time.perf_counter()
    while len(seconds) < PASSES or time.perf_counter() - start < SECONDS:
        begun = time.process_time()
        predict(texts)
        seconds.append(time.process_time() - begun)
    latencies = []
    for text in texts:
        begun = time.perf_counter()
        predict([text])
        latencies.append(1000 * (time.perf_counter() - begun))
    # A quantile that was measured, not one between two.
    p50, p99 = np.quantile(latencies, [0.5, 0.99], method="higher")
    return PredictionCost(len(texts), len(texts) / float(np.median(seconds)), float(p50), float(p99))


def price_per_million(documents_per_second: float, price_per_hour: float) -> float:
    """Return the price of a million documents, of cores that cost `price_per_hour` each."""
    return price_per_hour * MILLION / documents_per_second / 3600
