"""How far passages decide the class of documents, against random passages, for each model."""

import random

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from lib.analysis.computations.subject import Subject
from lib.core.randomness import derive_seed
from lib.evaluation.passages import MEASURES, faithfulness


def analyse(subject: Subject, *, documents: int, count: int, draws: int, text_baseline: object = None) -> pd.DataFrame:
    """Return one row per measure for the passages of a model, for random ones, and for the difference.

    Args:
        subject: a run that classifies texts.
        documents: how many texts are drawn, at most; at least two.
        count: passages of each text, at most.
        draws: random passages of each text.
        text_baseline: has a row of its own.

    Returns:
        `measure` (comprehensiveness, sufficiency), `of` (`passages`, `random`, or `difference`: the first less the
        second), `value` (mean fall of the probability), `low` and `high` (its bootstrap interval of 95 % over
        documents, for the given model), `words` (mean share in passages), all in percent; and `documents` (read).
    """
    generator = random.Random(derive_seed("passages", subject.seed))
    texts = generator.sample(subject.texts, min(documents, len(subject.texts)))
    assert subject.open_reader is not None  # as of every finished run
    reader = subject.open_reader()
    labels = reader.probabilities(texts).argmax(axis=1)
    found = [reader.passages_of(text, label, count) for text, label in zip(texts, labels, strict=True)]
    falls = 100 * faithfulness(texts, found, reader.probabilities, draws, subject.seed)
    rows = []
    for measure in MEASURES:
        own, others = falls[measure], falls[f"random_{measure}"]
        for of, values in (("passages", own), ("random", others), ("difference", own - others)):
            seed = derive_seed("bootstrap", subject.seed)
            low, high = bootstrap((values,), np.mean, method="percentile", rng=seed).confidence_interval
            rows.append({"measure": measure, "of": of, "value": values.mean(), "low": low, "high": high})
    return pd.DataFrame(rows).assign(words=falls["words"].mean(), documents=len(texts))
