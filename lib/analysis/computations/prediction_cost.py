"""The cost of a prediction, from the text to its scores, measured on the machine of the analysis.

One job measures all models one after the other, so all rows of a table are of one machine.
"""

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import torch

from lib.analysis.computations.subject import Subject
from lib.core.machine import cpu_name
from lib.core.randomness import derive_seed

WARM_UP = 8
"""Documents that are predicted first, one by one and together, without being measured."""
PASSES = 3
SECONDS = 1.0
"""Passes over all documents, and seconds of all passes, at least."""


def analyse(
    subject: Subject,
    *,
    documents: int,
    price_per_hour: float | None,
    currency: str | None,
    text_baseline: object = None,
) -> pd.DataFrame:
    """Return one row, measured in one thread of a CPU.

    Args:
        subject: a run that classifies texts.
        documents: how many texts are drawn, at most.
        price_per_hour: of a core; None = no price.
        currency: of the price.
        text_baseline: has a row of its own.

    Returns:
        `processor`, `instruction_set` and `measured` (the day, UTC), what `prediction_cost` returns and, with a price,
        `price_per_hour`, `price_per_million` and `currency`.
    """
    texts: Sequence[str] = subject.texts
    if len(texts) > documents:
        texts = random.Random(derive_seed("prediction cost", subject.seed)).sample(texts, documents)
    assert subject.open_reader is not None  # as of every finished run
    predict = subject.open_reader().probabilities
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cost = prediction_cost(predict, texts)
    finally:
        torch.set_num_threads(threads)
    day, instructions = f"{datetime.now(UTC):%Y-%m-%d}", torch.backends.cpu.get_cpu_capability()
    machine = {"processor": cpu_name(), "instruction_set": instructions, "measured": day}
    price: dict[str, object] = {}
    if price_per_hour is not None:
        of_million = price_per_hour * 1_000_000 / cost["documents_per_second"] / 3600
        price = {"price_per_hour": price_per_hour, "price_per_million": of_million, "currency": currency}
    return pd.DataFrame([machine | cost | price])


def prediction_cost(predict: Callable[[Sequence[str]], object], texts: Sequence[str]) -> dict[str, float]:
    """Measure the cost of a prediction, the way from the text to the scores included.

    Args:
        predict: predicts texts; it computes in one thread, so that the core that waits is the core that computes.
        texts: at least one.

    Returns:
        `documents`, the number of texts; `documents_per_second`, what one core predicts in a second, many at once: the
        median over passes, of CPU time; `latency_p50_ms`, the median of the milliseconds that one document takes by
        itself, of wall time; and `latency_p99_ms`, those that 99 % of the documents do not exceed.
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
    named = {"documents": len(texts), "documents_per_second": len(texts) / float(np.median(seconds))}
    return named | {"latency_p50_ms": float(p50), "latency_p99_ms": float(p99)}
