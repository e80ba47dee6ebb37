"""Where the evidence stands in own texts that a limit cuts: a hint by TF-IDF, without a training of encoders."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from lib.advice.preparing import OwnTexts
from lib.core.errors import DataError
from lib.evaluation.statistics import FEW_DOCUMENTS
from lib.results.tenths import PARTS, against_mean, predictions_by_part, scored
from lib.tokens.cutting import HEAD_SHARE

LEVEL = 0.05
"""Level of significance, after Holm's correction for the tenths."""

NGRAMS_PER_SECOND = 60_000
"""N-grams that are read for each second of the whole answer, so that the hint takes a small part of it."""


def evidence_hint(
    own: OwnTexts, lengths: np.ndarray, reach: int, ngrams: Mapping[str, Any] | None, seconds: float
) -> list[str]:
    """Return a section on the tenths of long documents that tell the class best by their words.

    TF-IDF of single words (which is fast) reads one tenth of each document. It classifies each half of the documents by
    a model of the other half. A tenth is named if its F1 is significantly above the mean of all tenths.

    Args:
        own: the texts.
        lengths: tokens of each of its `texts` [n].
        reach: tokens that are read of a document; only longer documents count.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
        seconds: about as long as the whole answer may take.

    Returns:
        The section, which counts documents left out for lack of time; nothing if no tenth is significantly better, or
        there are too few documents for the question.
    """
    frame = pd.DataFrame({"text": own.texts, "label": own.sample_labels or None, "tokens": lengths})
    long = frame[frame["tokens"] > reach].sample(frac=1, random_state=0)  # a file may be sorted by class
    settings = {"unit": "words", "ngram_max": 1} | dict(ngrams or {})
    pieces = long["text"].str.len() if settings["unit"] == "characters" else long["text"].str.split().str.len()
    frame = long[(settings["ngram_max"] * pieces).cumsum() <= NGRAMS_PER_SECOND * seconds]
    counts, gone = frame["label"].value_counts(), len(long) - len(frame)
    left_out = f" To keep --seconds, {gone:,} of {len(long):,} long documents were left out." if gone else ""
    if ngrams is None or len(counts) < 2 or counts.min() < FEW_DOCUMENTS:
        asked = left_out and own.labelled and ngrams is not None
        return [f"## Where the evidence stands\n\nIt was not looked for.{left_out}"] if asked else []
    labels = pd.Series(pd.factorize(frame["label"], sort=True)[0], frame.index)  # of the classes that are left
    predictions = np.empty((1 + PARTS, len(frame)), dtype=int)
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(frame["text"], labels):
        texts = frame["text"].iloc[train], labels.iloc[train], frame["text"].iloc[test]
        try:
            predictions[:, test] = predictions_by_part(*texts, len(counts), settings)
        except DataError:  # a tenth has no word that two documents have
            return []
    paired = scored(labels, predictions, len(counts))
    differences, p_values = against_mean(paired)
    better = [number for number, p in enumerate(p_values) if p < LEVEL and differences[number].mean > 0]
    if not better:
        return []
    points = []
    for number in better:
        low, high = (100 * end for end in differences[number].difference_interval(1 - LEVEL))
        points.append(f"{number + 1} ({100 * differences[number].mean:+.1f} points, {low:.1f} to {high:.1f})")
    scores = [100 * paired.score(number).mean for number in range(1 + PARTS)]
    share = reach / float(frame["tokens"].median())
    of_classes = "" if len(counts) == len(own.classes) else f", over the {len(counts)} classes that they have"
    return [
        f"## Where the evidence stands\n\nTF-IDF that reads one tenth of each of the {len(frame):,} documents of the "
        f"sample with more than {reach:,} tokens has a macro-F1 of {min(scores[1:]):.1f} to {max(scores[1:]):.1f} %"
        f"{of_classes}; on all of each document, {scores[0]:.1f} %. Significantly above the mean of the tenths (Holm): "
        f"{', '.join(points)}. {_advised(better, share, reach)} Each half of the documents is classified by a model of "
        "the other; intervals are over documents. This counts words alone: evidence in their order, or in what stands "
        f"far apart, is invisible to it (studies/evidence/README.md).{left_out}"
    ]


def _advised(better: Collection[int], share: float, reach: int) -> str:
    """Return which part of documents to read first, so that it holds the tenths that are better.

    Args:
        better: their numbers, from 0.
        share: share of a document that is read, of one of the median length.
        reach: tokens that are read.
    """
    missing = _outside(better, share, 0.0)
    if not missing:
        return f"The first {reach:,} tokens of a document of the median length hold them: try this cut first."
    named = ", ".join(str(number + 1) for number in missing)
    if not _outside(better, HEAD_SHARE * share, (1 - HEAD_SHARE) * share):
        return f"The first {reach:,} tokens leave out {named}, both ends (`cut: head_tail`) do not: try these first."
    return f"{reach:,} tokens leave out {named}: try segments, or a longer limit."


def _outside(better: Collection[int], head: float, tail: float) -> Sequence[int]:
    """Return the tenths that are not wholly in the first and last parts that are read, shares of a document."""
    return [number for number in better if (number + 1) / PARTS > head + 1e-9 and number / PARTS < 1 - tail - 1e-9]
