"""Where TF-IDF stands on own texts, without a training of encoders."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from lib.advice.preparing import OwnTexts
from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError
from lib.evaluation.statistics import FEW_DOCUMENTS

NGRAMS_PER_SECOND = 60_000
"""N-grams that are read for each second of the whole answer, so that TF-IDF takes a small part of it."""


def tfidf_fact(own: OwnTexts, ngrams: Mapping[str, Any] | None, seconds: float) -> str | None:
    """Return a sentence on the score of TF-IDF.

    TF-IDF of single words (which is fast) classifies each half of the documents by a model of the other half.

    Args:
        own: the texts.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
        seconds: about as long as the whole answer may take.

    Returns:
        None without labels, without n-grams, or with too few documents of a class.
    """
    if not own.labelled or ngrams is None:
        return None
    # There is no validation to choose by, so its penalty is that of C = 1, and classes have no weights.
    values: Any = {"kind": "tfidf", "C": 1.0, "class_weight": None, "unit": "words", "ngram_max": 1, **ngrams}
    frame = pd.DataFrame({"text": own.texts, "label": own.sample_labels})
    frame = frame.sample(frac=1, random_state=0)  # a file may be sorted by class
    pieces = frame["text"].str.len() if values["unit"] == "characters" else frame["text"].str.split().str.len()
    frame = frame[(values["ngram_max"] * pieces).cumsum() <= NGRAMS_PER_SECOND * seconds]
    counts = frame["label"].value_counts()
    if len(counts) < 2 or counts.min() < FEW_DOCUMENTS:
        return None
    labels = pd.Series(pd.factorize(frame["label"], sort=True)[0], frame.index)  # of the classes that are left
    predicted = np.empty(len(frame), dtype=int)
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(frame["text"], labels):
        backbone = BACKBONES.load("tfidf", "backbone").Backbone(BACKBONES.parse(values), seed=0)
        try:
            backbone.fit(frame["text"].iloc[train], labels.iloc[train])
        except DataError:  # a half has no n-gram that two documents have
            return None
        predicted[test] = backbone.class_probabilities(frame["text"].iloc[test], len(counts)).argmax(axis=1)
    f1 = f"{100 * f1_score(labels, predicted, average='macro'):.1f} %"
    said = f"TF-IDF has a macro-F1 of {f1} on {len(frame):,} documents, each half classified by a model of the other"
    return f"{said}: what an encoder has to surpass."
