"""How F1 of rows without training grows with the documents that they learn from, and how many more a gain takes.

Shapes: n documents, F features, C classes, J sizes, D draws.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from lib.advice.quick import FOLDS, USUAL, Quick, QuickRow, folds_of
from lib.evaluation.statistics import PairedPredictions

EACH = (8, 16, 32, 64)
"""Documents of each class that rows also learn from, where the classes have that many."""

DRAWS = (3, 10)
"""Draws of folds and training documents, at least and at most."""

SMALLEST, FITTED = 10, 3
"""Documents of the smallest size, at least, and one of each class; sizes that a forecast is fitted to, the largest
ones, since F1 of rare classes begins to rise late."""

EXPONENTS, DRAWN = np.linspace(-0.5, 1, 30), 400
"""Exponents of the power law, all as likely beforehand, and curves that are drawn of each. With those below 0 each
doubling adds more than the one before; none is 0."""

MISFIT = 0.01
"""Standard deviation of a learning curve around its power law."""

GAIN, MOST = 0.02, 10
"""F1 to be gained, and how many times the documents at hand a forecast reaches, at most."""

LEVEL = 0.1
"""Level of the interval of a forecast, and most chance of no gain where it says that more labels help."""


class Size(NamedTuple):
    """Documents that rows learn from."""

    documents: int
    each: int = 0
    """Documents of each class; 0 = classes have their shares of all documents."""


class Needed(NamedTuple):
    """Documents that must be labelled to gain F1; infinite = more than `MOST` times those at hand."""

    about: float
    low: float
    high: float
    shown: bool
    """Whether more documents are shown to help."""


@dataclass(frozen=True)
class Curve:
    """Predictions of a row, for each document by a model that learnt from others."""

    row: str
    sizes: list[Size]
    paired: PairedPredictions
    """Sizes in place of models [J], and draws in place of seeds [D]."""
    left_out: bool
    """Whether there was no time for larger sizes."""

    def largest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the `FITTED` largest sizes of shares [J], their mean scores, and the covariance of these [J, J].

        Scores vary by the documents and by the draws. A draw of m of n documents is as good as independent of n / m
        others.
        """
        last = [number for number, size in enumerate(self.sizes) if not size.each][-FITTED:]
        sizes, documents = np.array([self.sizes[number].documents for number in last]), len(self.paired.labels)
        scores, left_out = self.paired.f1()[:, last], self.paired.left_out[:, :, last].mean(axis=1)
        centred = left_out - left_out.mean(axis=0)  # a jackknife, as in lib.evaluation.statistics
        independent = np.sqrt(np.minimum(documents / sizes, len(scores)))
        of_draws = np.cov(scores.T) / np.outer(independent, independent)
        return sizes, scores.mean(axis=0), (1 - 1 / len(centred)) * centred.T @ centred + of_draws

    def last_doubling(self) -> tuple[float, float, float]:
        """Return the gain from the last doubling of the documents, and the ends of its interval (95 %)."""
        (_, scores, covariance), step = self.largest(), np.array([*(FITTED - 2) * [0], -1, 1])
        gained, reach = step @ scores, 1.96 * np.sqrt(step @ covariance @ step)
        return gained, gained - reach, gained + reach


def learning_curves(quick: Quick, seconds: float) -> list[Curve]:
    """Return the curves of all rows, in the same time each; none if there are too few documents."""
    given = quick.labels, seconds / len(quick.rows), quick.groups
    return [curve for row in quick.rows if (curve := learning_curve(row, *given))]


def learning_curve(row: QuickRow, labels: np.ndarray, seconds: float, groups: np.ndarray | None = None) -> Curve | None:
    """Return the scores of a row at half of its documents, a quarter and so on, and at equal numbers of each class.

    In each draw, one model for each fold and size learns from documents that are drawn from the other folds; the same
    ones are in all larger sizes.

    Args:
        row: has the features of the documents [n, F].
        labels: their classes [n], numbered from 0; each has as many documents as there are folds.
        seconds: about as long as it may take. Where it is too short, there are fewer draws, and large sizes are left
            out.
        groups: numbers of documents that are in one fold [n]; None = each is for itself.

    Returns:
        None if there are too few documents for `FITTED` sizes.
    """
    counts = np.bincount(labels)
    most, least = len(labels) * (FOLDS - 1) // FOLDS, max(SMALLEST, len(counts))
    sizes = [Size(most >> halvings) for halvings in range((most // least).bit_length())]
    if len(sizes) < FITTED:
        return None
    least = sizes[-FITTED].documents
    sizes += [Size(each * len(counts), each) for each in EACH if each <= counts.min() * (FOLDS - 1) // FOLDS]
    begun, learnt = time.monotonic(), sorted(sizes)
    draws: list[list[np.ndarray]] = []
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):  # as for the rows
        for number in range(DRAWS[1]):
            if number >= DRAWS[0] and (1 + 1 / number) * (time.monotonic() - begun) > seconds:
                break
            draws.append([])
            for size in learnt:
                draws[-1].append(_predicted(row.features, labels, groups, size, number))
                # The next size takes about as long as all before it.
                if not number and size.documents >= least and 2 * DRAWS[0] * (time.monotonic() - begun) > seconds:
                    break
            learnt = learnt[: len(draws[-1])]
    documents = np.arange(len(labels)) if groups is None else groups
    paired = PairedPredictions([*map(str, learnt)], labels, np.array(draws), documents, len(counts))
    return Curve(row.name, learnt, paired, len(learnt) < len(sizes))


def _predicted(features: Any, labels: np.ndarray, groups: np.ndarray | None, size: Size, draw: int) -> np.ndarray:
    """Return the class of each document [n] by a model that learnt from so many documents of the other folds."""
    given = np.empty_like(labels)
    folds = folds_of(groups, seed=draw)
    for number, (others, fold) in enumerate(folds.split(labels, labels, groups)):
        known = others[drawn(labels[others], size, FOLDS * draw + number)]
        rows = features
        if issparse(rows):  # TF-IDF that is fitted to the drawn documents has n-grams of two of them
            rows = normalize(rows[:, np.flatnonzero(rows[known].getnnz(axis=0) >= 2)])
        model = LogisticRegression(C=USUAL, max_iter=1000).fit(rows[known], labels[known])
        given[fold] = model.predict(rows[fold])
    return given


def drawn(labels: np.ndarray, size: Size, seed: int) -> np.ndarray:
    """Return the places of documents that are drawn by class, one of each class at least; larger sizes have them too.

    Args:
        labels: classes of the documents.
        size: of the draw; all documents if there are fewer.
        seed: of the draw.
    """
    shuffled = pd.Series(labels).sample(frac=1, random_state=seed)
    classes = shuffled.groupby(shuffled)
    place = classes.cumcount()
    if not size.each:
        place = ((place + 0.5) / classes.transform("size")).where(place > 0, 0.0)
    return place.sort_values(kind="stable").index[: size.documents].to_numpy()


def documents_needed(sizes: np.ndarray, scores: np.ndarray, covariance: np.ndarray, documents: int) -> Needed:
    """Return how many more documents gain `GAIN`.

    Of m documents the score is s + b (1 - (m / documents)^-c) / c: a power law whose s is the score of the documents at
    hand, and b the gain from e times as many at first. All `EXPONENTS` c are taken that fit, each as often as it is
    likely, with all s and b that do, under a normal distribution of the scores.

    Args:
        sizes: documents that rows learnt from, m [J].
        scores: their mean scores, as fractions [J].
        covariance: of these [J, J].
        documents: that there are to learn from.

    Source: Viering and Loog (2023), The Shape of Learning Curves, section 4; Hestness et al. (2017), Deep Learning
    Scaling is Predictable, for curves that have not begun to rise. The transformation is that of Box and Cox (1964).
    """
    times, draw = sizes / documents, np.random.default_rng(0)
    inverse = np.linalg.inv(covariance + MISFIT**2 * np.eye(len(times)))
    more, flat, logs = [], [], []
    for exponent in EXPONENTS:
        design = np.stack([np.ones(len(times)), (1 - times**-exponent) / exponent], axis=1)
        spread = np.linalg.inv(design.T @ inverse @ design)
        fitted = spread @ design.T @ inverse @ scores
        rest = scores - design @ fitted
        now, rise = draw.multivariate_normal(fitted, spread, DRAWN).T
        with np.errstate(all="ignore"):  # where it is never reached
            reached = (1 - exponent * GAIN / rise) ** (-1 / exponent) - 1
            ever = (rise > 0) & (now + GAIN <= 1) & (reached <= MOST)
        more.append(np.where(ever, documents * reached, np.inf))
        flat.append((rise <= 0).mean())
        logs.append(-rest @ inverse @ rest / 2)
    likely, quantiles = np.exp(np.array(logs) - max(logs)), (LEVEL / 2, 0.5, 1 - LEVEL / 2)
    weights = np.repeat(likely, DRAWN)
    low, about, high = np.quantile(np.concatenate(more), quantiles, weights=weights, method="inverted_cdf")
    return Needed(about, low, high, bool(np.average(flat, weights=likely) <= LEVEL and np.isfinite(about)))
