"""How far passages decide the class of documents, against random passages, for each model."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import bootstrap

from lib.analysis.computations.subject import Subject
from lib.core.randomness import derive_seed
from lib.evaluation.passages import MEASURES, Passage, by_removal, faithfulness


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
    reader = Reader(subject)
    falls = 100 * faithfulness(texts, reader.passages(texts, count), reader.probabilities, draws, subject.seed)
    rows = []
    for measure in MEASURES:
        own, others = falls[measure], falls[f"random_{measure}"]
        for of, values in (("passages", own), ("random", others), ("difference", own - others)):
            seed = derive_seed("bootstrap", subject.seed)
            low, high = bootstrap((values,), np.mean, method="percentile", rng=seed).confidence_interval
            rows.append({"measure": measure, "of": of, "value": values.mean(), "low": low, "high": high})
    return pd.DataFrame(rows).assign(words=falls["words"].mean(), documents=len(texts))


class Reader:
    """Reads texts as the model of a run does.

    Args:
        subject: the run.
    """

    def __init__(self, subject: Subject) -> None:
        assert subject.open_classifier is not None  # as of every finished run
        self.predict: Any = subject.open_classifier()
        self.linear: Any = subject.classifier

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Return the probabilities of the classes of texts [n, C]."""
        found = self.predict(texts)
        return found if self.linear else pd.DataFrame(found).drop(columns=["id", "label"]).to_numpy()

    def passages(self, texts: Sequence[str], count: int) -> list[list[Passage]]:
        """Return the passages of each text that decide its class, at most `count`."""
        if self.linear is None:
            return [by_removal(text, self.probabilities, count) for text in texts]
        labels = self.probabilities(texts).argmax(axis=1)
        return [self.linear.passages(text, label, count) for text, label in zip(texts, labels, strict=True)]
