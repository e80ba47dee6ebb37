"""Rows without training: TF-IDF and frozen encoders, scored by folds within seconds; and what training adds to them."""

import contextlib
import math
import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn import model_selection as selection
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from lib.advice.preparing import OwnTexts
from lib.backbones.logistic import STRENGTHS
from lib.backbones.settings import BACKBONES
from lib.backbones.text_encoder import TextEncoder
from lib.evaluation.label_sets import chosen_thresholds, indicators, sets_of
from lib.evaluation.statistics import PairedPredictions

FOLDS = 5
"""Folds; each is classified by a model of the others."""

USUAL = 10.0
"""`C` where there is no time to choose it inside of the training folds."""

CHOICE = 25
"""Fits on all documents that take as long as all folds with a choice of `C`."""

FEWEST, PART, PAUSE = 100, 32, 5.0
"""Documents that are scored, at least; those that an encoder reads between two looks at the clock, at least; and the
seconds that it takes for these, about."""

READING, DECIDING = 0.75, 0.1
"""Shares of the time that encoders may read, and that each row may choose `C`."""

LEAST = 0.02
"""The least fall of F1 that is named."""

COVERED = 0.8
"""Share of new files whose gain the interval should hold, if they are like the past ones."""

PAST = 4
"""Past files that a forecast needs."""

PAST_FILES = Path(__file__).with_name("past_files.csv")
"""F1 by row in per cent, and minutes of a training."""


@dataclass(frozen=True)
class QuickRow:
    """A row that was scored."""

    name: str
    seconds: float
    """Seconds of reading all documents and of all folds."""
    cpu: float
    """CPU seconds of reading a document."""
    chosen: bool
    """Whether `C` was chosen inside of the training folds."""
    features: Any
    """Features of the documents that were scored [n, F]."""


@dataclass(frozen=True)
class Quick:
    """Rows that were scored on the same documents."""

    rows: list[QuickRow]
    paired: PairedPredictions
    """Their predictions, in the same order; F1 is macro-F1, or micro-F1 where documents have several labels."""
    labels: np.ndarray
    """Class of each document, numbered from 0 [n], or which ones it has [n, C]."""
    groups: np.ndarray | None
    """Numbers of documents that are in one fold [n]; None = each is for itself."""
    drawn_from: int
    """Documents that there were to draw from."""

    left_out: bool
    """Whether classes have too few documents to be scored."""
    folds: int
    """Folds; fewer if a column has fewer values."""
    by: str | None
    """Column whose values are in one fold each; intervals are over them, too. None = each document is for itself."""

    @property
    def best(self) -> int:
        """Number of the row with the highest F1."""
        return int(self.paired.f1()[0].argmax())


def quick_rows(
    own: OwnTexts, ngrams: Mapping[str, Any] | None, encoders: Mapping[str, TextEncoder], seconds: float
) -> Quick | None:
    """Return the rows of TF-IDF and of encoders, each the vectors of all texts and a logistic regression.

    Labels decide nothing about vectors, so these are made once. Where encoders would take too long, all rows have fewer
    documents, drawn by class. Of several labels per document, each class is decided by a regression of its own, all
    classes stay, and documents are drawn at random.

    Args:
        own: the texts.
        ngrams: settings of TF-IDF that differ from the defaults; None = it finds nothing.
        encoders: encoders that do not train, by the names of their rows.
        seconds: about as long as it may take.

    Returns:
        None if no two classes have as many documents as there are folds, or no row reads them.
    """
    values = own.sample_groups or range(len(own.texts))
    every = pd.DataFrame({"text": own.texts, "label": own.sample_labels, "group": values})
    every, classes = every.sample(frac=1, random_state=0), len(own.classes)  # a file may be sorted by class
    folds = min(FOLDS, every["group"].nunique()) if own.by else FOLDS
    several = bool(own.set_sizes)
    if not several:
        sizes, place = every.groupby("label")["text"].transform("size"), every.groupby("label").cumcount()
        order = np.where(place < FOLDS, -1, place / sizes)  # so that the first documents are of all classes
        enough = every.groupby("label")["group"].transform("nunique") >= folds
        every = every.iloc[np.argsort(order, kind="stable")][lambda rows: enough[rows.index]]
        classes = every["label"].nunique()
    if classes < 2 or len(every) < FOLDS or folds < 2:
        return None
    least, each = max(FEWEST, FOLDS * classes), READING * seconds / max(1, len(encoders))
    ends = {name: time.monotonic() + each * number for number, name in enumerate(encoders, start=1)}
    readers = {name: partial(_vectors, encoder, least, ends[name]) for name, encoder in encoders.items()}
    if ngrams is not None:  # last, when the number of documents is known
        vectorizer = BACKBONES.load("tfidf", "backbone").vectorizer(BACKBONES.parse({"kind": "tfidf", **ngrams}))
        readers["tfidf"] = vectorizer.fit_transform
    texts, read = list(every["text"]), {}
    for name, reader in readers.items():
        begun, cpu = time.monotonic(), time.process_time()
        with contextlib.suppress(ValueError):  # TF-IDF finds no n-gram in two of these documents
            features = reader(texts)
            texts = texts[: features.shape[0]]
            read[name] = features, time.monotonic() - begun, (time.process_time() - cpu) / len(texts)
    known = every["label"][: len(texts)]
    labels = indicators(known, classes).toarray() if several else np.unique(known, return_inverse=True)[1]
    groups = np.unique(every["group"][: len(texts)], return_inverse=True)[1]
    rows, predictions = [], []
    for name in sorted(read, key=lambda name: name != "tfidf"):
        features, taken, cpu = read[name]
        begun = time.monotonic()
        predicted, chosen = _predictions(features[: len(texts)], labels, DECIDING * seconds, groups if own.by else None)
        predictions.append(predicted)
        rows.append(QuickRow(name, taken + time.monotonic() - begun, cpu, chosen, features[: len(texts)]))
    if not rows:
        return None
    true, *given = ([*(sets_of(each) if several else each[:, None])] for each in (labels, *predictions))
    sets: tuple[Any, ...] = true, pd.DataFrame(given).to_numpy()[None], classes, "f1_micro" if several else "f1_macro"
    paired = PairedPredictions.of_sets([row.name for row in rows], *sets)
    paired = replace(paired, documents=groups[paired.documents])
    together = groups if own.by else None
    return Quick(rows, paired, labels, together, len(every), len(every) < len(own.texts), folds, own.by)


def _vectors(encoder: TextEncoder, least: int, end: float, texts: list[str]) -> np.ndarray:
    """Return the vectors of the first texts, as many as are read before the time `end`, but not fewer than `least`."""
    begun, found, number, part = time.monotonic(), [], 0, PART
    with tqdm(total=len(texts), desc="reading by an encoder", unit=" documents", disable=None) as bar:
        while number < len(texts) and (number < least or time.monotonic() < end):
            found.append(encoder.vectors(texts[number : number + part], bar.update))
            number, now = number + part, time.monotonic()
            part = max(PART, int(min(PAUSE, end - now) * number / (now - begun)))
    return normalize(np.concatenate(found))  # as the backbone `frozen` has them


def _predictions(features: Any, labels: np.ndarray, seconds: float, groups: Any) -> tuple[np.ndarray, bool]:
    """Return the class of each document by a model of the other folds, and whether there was time to choose `C`.

    Args:
        features: of the documents [n, F].
        labels: their classes [n], or which ones they have [n, C], as are those that are returned.
        seconds: time to choose `C`.
        groups: numbers of documents that are in one fold [n]; None = each is for itself.
    """
    several = labels.ndim == 2
    # Classes that a half lacks, and optimisers that stop early. Threads of small products wait for each other.
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        begun = time.monotonic()
        one = LogisticRegression(C=USUAL, max_iter=1000)
        model = (OneVsRestClassifier(one) if several else one).fit(features, labels)
        if chosen := CHOICE * (time.monotonic() - begun) < seconds:
            strengths, score = {"estimator__C" if several else "C": STRENGTHS}, "f1_micro" if several else "f1_macro"
            model = GridSearchCV(model, strengths, scoring=score, cv=2)
        folds = folds_of(groups, several=several)
        if not several:
            return cross_val_predict(model, features, labels, groups=groups, cv=folds), chosen
        likely = cross_val_predict(model, features, labels, groups=groups, cv=folds, method="predict_proba")
        return likely >= chosen_thresholds(labels, likely, per_class=False), chosen


def folds_of(groups: np.ndarray | None, *, several: bool = False, seed: int = 0) -> Any:
    """Return the folds of documents; of those with groups, at most as many as there are groups.

    Args:
        groups: see `_predictions`.
        several: whether documents have several labels; then folds are not balanced by class.
        seed: of the draw.
    """
    kinds = [selection.KFold, selection.GroupKFold] if several else [StratifiedKFold, StratifiedGroupKFold]
    number = FOLDS if groups is None else min(FOLDS, groups.max() + 1)
    return kinds[groups is not None](number, shuffle=True, random_state=seed)


class Fall(NamedTuple):
    """Macro-F1 of TF-IDF in random folds, and where no two folds share a value of a column."""

    random: float
    apart: float
    lost: float
    """The difference."""
    interval: tuple[float, float]
    """Ends of its interval."""
    leaks: bool
    """Whether it is significant, and large enough to be named."""


def fall_of(table: pd.DataFrame, ngrams: Mapping[str, Any], level: float) -> Fall | None:
    """Return how far F1 of documents is lower if no two folds share a value; None if they cannot be scored.

    Random folds are those of the shuffled values, so they differ in nothing else. Each class is decided by a regression
    of its own, with the scores of one for all classes in a fraction of the time.

    Args:
        table: `text`, `label` and `value` of the documents.
        ngrams: settings of TF-IDF that differ from the defaults.
        level: of the interval, which is that of the jackknife over values.
    """
    table = table[table.groupby("label")["value"].transform("nunique") >= FOLDS]
    labels, groups = (pd.factorize(table[name])[0] for name in ("label", "value"))
    vectorizer = BACKBONES.load("tfidf", "backbone").vectorizer(BACKBONES.parse({"kind": "tfidf", **ngrams}))
    model = OneVsRestClassifier(LogisticRegression(C=USUAL, solver="liblinear", dual=True, random_state=0))
    with threadpool_limits(1), contextlib.suppress(ValueError):  # there is no n-gram, or one class
        features, folds = vectorizer.fit_transform(table["text"]), folds_of(groups)
        both = np.random.default_rng(0).permutation(groups), groups
        found = [cross_val_predict(model, features, labels, groups=each, cv=folds) for each in both]
        paired = PairedPredictions(["random", "apart"], labels, np.array(found)[None], groups, labels.max() + 1)
        lost, (random, apart) = paired.difference(0, 1), paired.f1()[0]
        low, high = lost.difference_interval(1 - level)
        return Fall(random, apart, lost.mean, (low, high), low > 0 and lost.mean >= LEAST)
    return None


class Forecast(NamedTuple):
    """Points of macro-F1 that fine-tuning adds to the best quick row."""

    low: float
    high: float
    files: int
    """Past files."""
    held: int
    """Past files whose gain is in the interval from all others."""
    minutes: tuple[float, float]
    """Least and most minutes of a training there."""


def forecast(rows: Collection[str], language: str, files: Path = PAST_FILES) -> Forecast | None:
    """Return the forecast; None if there are too few past files.

    A gain is the macro-F1 after fine-tuning minus that of the best quick row, of those that are at hand.

    Args:
        rows: columns of the quick rows at hand, `tfidf` and `frozen`.
        language: of the texts; past files of others do not count.
        files: table of the past files.

    Source: the interval for one more value of a normal distribution, Geisser (1993), Predictive Inference, chapter 2.
    """
    past = pd.read_csv(files).dropna(subset=["fine_tuned", *rows]).query("language == @language")
    if len(past) < PAST:
        return None
    gains = (past["fine_tuned"] - past[[*rows]].max(axis=1)).to_numpy()
    others = [_interval(np.delete(gains, number)) for number in range(len(gains))]
    held = sum(low <= gain <= high for gain, (low, high) in zip(gains, others, strict=True))
    return Forecast(*_interval(gains), len(gains), held, (past["minutes"].min(), past["minutes"].max()))


def _interval(gains: np.ndarray) -> tuple[float, float]:
    """Return the ends of the interval for one more gain."""
    reach = t.ppf((1 + COVERED) / 2, len(gains) - 1) * gains.std(ddof=1) * math.sqrt(1 + 1 / len(gains))
    return gains.mean() - reach, gains.mean() + reach
