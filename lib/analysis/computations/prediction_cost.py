"""The cost of a prediction, from the text to its scores, measured on the machine of the analysis.

One job measures all models one after the other, so all rows of a table are of one machine.
"""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import torch

from lib.analysis.computations.subject import Subject, TextSubject
from lib.core.machine import cpu_name
from lib.core.randomness import derive_seed
from lib.evaluation.prediction_cost import prediction_cost, price_per_million


def analyse(
    subject: Subject | TextSubject,
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
        `processor`, `instruction_set` and `measured` (the day, UTC), the fields of
        `lib.evaluation.prediction_cost.PredictionCost` and, with a price, `price_per_hour`, `price_per_million` and
        `currency`.
    """
    texts: Sequence[str] = subject.texts
    if len(texts) > documents:
        texts = random.Random(derive_seed("prediction cost", subject.seed)).sample(texts, documents)
    assert subject.open_classifier is not None  # as of every finished run
    predict = subject.open_classifier()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        cost = prediction_cost(predict, texts)
    finally:
        torch.set_num_threads(threads)
    machine = {
        "processor": cpu_name(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    price = {}
    if price_per_hour is not None:
        of_million = price_per_million(cost.documents_per_second, price_per_hour)
        price = {"price_per_hour": price_per_hour, "price_per_million": of_million, "currency": currency}
    return pd.DataFrame([machine | cost._asdict() | price])
