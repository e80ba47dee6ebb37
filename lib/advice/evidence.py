"""Where TF-IDF stands on own texts, and where in long documents the evidence stands: without a training of encoders."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from lib.advice.preparing import OwnTexts
from lib.core.errors import DataError
from lib.evaluation.statistics import FEW_DOCUMENTS
from lib.results.tenths import PARTS, against_mean, predictions_by_part, scored

LEVEL = 0.05
"""Level of significance, after Holm's correction for the tenths."""

NGRAMS_PER_SECOND = 60_000
"""N-grams that are read for each second of the whole answer, so that TF-IDF takes a small part of it."""


def tfidf_fact(
    own: OwnTexts, lengths: np.ndarray, reach: int, ngrams: Mapping[str, Any] | None, seconds: float
) -> str | None:
    """Return a sentence on the score of TF-IDF, and one on the tenths of long documents that tell the class best.

    TF-IDF of single words (which is fast) classifies each half of the documents by a model of the other half. Of
    documents longer than `reach`, if there are enough, it also reads one tenth at a time: a tenth is named if its F1 is
    significantly above the mean of all tenths.

    Args:
        own: the texts.
        lengths: tokens of each of its `texts` [n].
        reach: tokens that are read of a document.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
        seconds: about as long as the whole answer may take.

    Returns:
        None without labels, without n-grams, or with too few documents of a class.
    """
    if not own.labelled or ngrams is None:
        return None
    settings = {"unit": "words", "ngram_max": 1} | dict(ngrams)
    frame = pd.DataFrame({"text": own.texts, "label": own.sample_labels, "long": lengths > reach})
    frame = frame.sample(frac=1, random_state=0)  # a file may be sorted by class
    pieces = frame["text"].str.len() if settings["unit"] == "characters" else frame["text"].str.split().str.len()
    frame = frame[(settings["ngram_max"] * pieces).cumsum() <= NGRAMS_PER_SECOND * seconds]
    long = frame[frame["long"]]
    found = _scores(long, settings, PARTS) or _scores(frame, settings, 0)
    if found is None:
        return None
    whole, tenths, better = found
    if not tenths:
        return (
            f"TF-IDF has a macro-F1 of {whole:.1f} % on {len(frame):,} documents, each half classified by a model of "
            "the other: what an encoder has to surpass."
        )
    text = (
        f"TF-IDF has a macro-F1 of {whole:.1f} % on {len(long):,} documents with more than {reach:,} tokens, each half "
        f"classified by a model of the other: what an encoder has to surpass. One tenth of each alone has "
        f"{min(tenths):.1f} to {max(tenths):.1f} %"
    )
    if not better:
        return f"{text}; none is significantly above their mean."
    return (
        f"{text}; significantly above their mean (Holm): {', '.join(better)}. If a limit leaves these out, try "
        "segments, `cut: head_tail` or a longer limit. This counts words alone, not their order."
    )


def _scores(
    frame: pd.DataFrame, settings: Mapping[str, Any], parts: int
) -> tuple[float, list[float], list[str]] | None:
    """Return F1 on whole documents and on tenths in per cent, and the tenths above the mean with their intervals."""
    counts = frame["label"].value_counts()
    if len(counts) < 2 or counts.min() < FEW_DOCUMENTS:
        return None
    labels = pd.Series(pd.factorize(frame["label"], sort=True)[0], frame.index)  # of the classes that are left
    predictions = np.empty((1 + parts, len(frame)), dtype=int)
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(frame["text"], labels):
        texts = frame["text"].iloc[train], labels.iloc[train], frame["text"].iloc[test]
        try:
            predictions[:, test] = predictions_by_part(*texts, len(counts), settings, parts)
        except DataError:  # a tenth has no word that two documents have
            return None
    paired = scored(labels, predictions, len(counts))
    whole, *tenths = [100 * paired.score(number).mean for number in range(1 + parts)]
    better = []
    for number, (difference, p) in enumerate(zip(*against_mean(paired), strict=True) if parts else (), start=1):
        low, high = (100 * end for end in difference.difference_interval(1 - LEVEL))
        if p < LEVEL and difference.mean > 0:
            better.append(f"{number} ({100 * difference.mean:+.1f} points, {low:.1f} to {high:.1f})")
    return whole, tenths, better
