"""Decisions of a classifier of documents: temperature, thresholds of classes, and abstention.

All are chosen on validation documents and kept on others. n documents; C classes, numbered from 0.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import beta, binomtest
from sklearn.metrics import precision_recall_curve

from lib.core.errors import ConfigError, DataError

SMALLEST = float(np.finfo(np.float32).tiny)
"""Probabilities below count as this, since predictions store 0 for all that are smaller."""
TEMPERATURES = (0.01, 100.0)
"""The lowest is that of documents which are all right, where none is best; the highest that of guesses."""

Measure = Literal["precision", "recall", "f1"]
NEXT = {"precision": ["recall", "precision"], "recall": ["precision", "recall"], "f1": ["f1", "threshold"]}
"""What decides among thresholds that reach a measure."""
START = 3
"""A certainty is tried from so many times the documents on that would have to be all right."""


def temperature(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the temperature that minimises the cross-entropy of documents, between the ends of `TEMPERATURES`.

    Args:
        probabilities: predicted distribution of each document [n, C].
        labels: true classes [n].

    Source:
        Guo et al. 2017, "On Calibration of Modern Neural Networks", section 4.2. scikit-learn has it from version 1.8.
    """
    logarithms, labels = np.log(_clipped(probabilities)), np.asarray(labels, dtype=int)

    def cross_entropy(exponent: float) -> float:
        return -float(log_softmax(logarithms / math.exp(exponent), axis=1)[np.arange(len(labels)), labels].mean())

    bounds = tuple(map(math.log, TEMPERATURES))
    return math.exp(minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-8}).x)


def at_temperature(probabilities: ArrayLike, temperature: float) -> np.ndarray:
    """Return probabilities [n, C] at a temperature: above 1 less certain, below 1 more. The likeliest class stays."""
    return softmax(np.log(_clipped(probabilities)) / temperature, axis=1)


def threshold(probabilities: ArrayLike, is_class: ArrayLike, measure: Measure, least: float = 0.0) -> float:
    """Return the threshold of a class that reaches a measure: its probability, at or above which the class is given.

    Of those that reach a precision, it has the greatest recall, then the greatest precision; of those that reach a
    recall, the greatest precision, then the greatest recall; for F1, the greatest F1, then the highest threshold.

    Args:
        probabilities: probability of the class [n].
        is_class: whether each document is of the class [n].
        measure: what must be reached.
        least: the least value of the measure, as a fraction.

    Raises:
        DataError: no document is of the class, or no threshold reaches the value.
    """
    if not np.any(is_class):
        raise DataError("no document is of the class, so it has no threshold. Leave it out.")
    precision, recall, thresholds = precision_recall_curve(is_class, np.asarray(probabilities, dtype=np.float64))
    curve = pd.DataFrame({"precision": precision[:-1], "recall": recall[:-1], "threshold": thresholds})
    f1 = (2 * precision * recall / np.maximum(precision + recall, SMALLEST))[:-1]
    curve["f1"] = f1.round(12)  # equal ones are equal to the last digit
    reached = curve[curve[measure] >= least]
    if reached.empty:
        asked, best = 100 * least, 100 * curve[measure].max()
        raise DataError(f"no threshold reaches a {measure} of {asked:g} %; the best is {best:.1f} %. Ask for less.")
    return float(reached.sort_values(NEXT[measure])["threshold"].iloc[-1])


def decide(probabilities: ArrayLike, thresholds: Mapping[int, float]) -> np.ndarray:
    """Return the class of each document [n].

    A class with a threshold is given to documents whose probability reaches it; of several such classes, that of the
    greatest ratio of both. All other documents get the likeliest class without a threshold.

    Args:
        probabilities: predicted distribution of each document [n, C].
        thresholds: by number of the class.

    Raises:
        ConfigError: all classes have a threshold.
    """
    scores = _clipped(probabilities)
    if len(thresholds) == scores.shape[1]:
        raise ConfigError("thresholds: all classes have one, and documents below all get none. Leave one class out.")
    for number, least in thresholds.items():
        ratios = scores[:, number] / max(least, SMALLEST)
        scores[:, number] = np.where(ratios >= 1, 2 * ratios, 0)  # above all probabilities, or below
    return scores.argmax(axis=1)


def least_confidence(right: ArrayLike, confidence: ArrayLike, wrong: float, certainty: float | None = None) -> float:
    """Return the least confidence of documents that are decided; those below are left to a person.

    It decides as many documents as it may. Without `certainty`, at most the share `wrong` of the decided validation
    documents are wrong. Chosen on these documents, it is optimistic: on others the share is higher about half of the
    time. With it, an upper bound of that share is at most `wrong` at this confidence and at all higher ones from a
    fixed number of documents on, so that the chance of more wrong ones among other documents is at most
    1 - `certainty`; fewer documents are then decided.

    Args:
        right: whether each prediction is right [n].
        confidence: probability of each predicted class [n].
        wrong: the greatest share of wrong ones among the decided.
        certainty: chance that it is kept on other documents of the same kind; None = see above.

    Raises:
        DataError: no confidence reaches it.

    Source:
        Geifman and El-Yaniv 2017, "Selective Classification for Deep Neural Networks", lemma 3.1, for the bound; but
        the search is that of Angelopoulos et al. 2021, "Learn then Test", fixed sequence testing, which needs no
        correction for its number of tests.
    """
    documents = pd.DataFrame({"wrong": ~np.asarray(right, dtype=bool), "at": np.asarray(confidence, dtype=np.float64)})
    decided = documents.groupby("at")["wrong"].agg(["size", "sum"])[::-1].cumsum()  # the most confident ones first
    shares, sure = decided["sum"] / decided["size"], ""
    if certainty is not None:
        bounds = shares.where(shares == 1, beta.ppf(certainty, decided["sum"] + 1, decided["size"] - decided["sum"]))
        least = START * math.log(1 - certainty) / math.log(1 - wrong)
        shares, sure = bounds[decided["size"] >= least].cummax(), f" with a certainty of {100 * certainty:g} %"
    reached = shares[shares <= wrong]
    if reached.empty:
        best = f"the best is {100 * shares.min():.1f} %" if len(shares) else f"that takes {math.ceil(least)} documents"
        said = f"no confidence leaves at most {100 * wrong:g} % wrong{sure}; {best}"
        raise DataError(f"{said}. Allow more, or give more validation documents than {len(documents)}.")
    return float(reached.index.min())


class Decided(NamedTuple):
    """Documents that a classifier decides, and those that it leaves to a person. Its text has all counts."""

    documents: int
    decided: int
    wrong: int
    """Documents that are decided wrongly."""

    @property
    def shares(self) -> list[tuple[float, float, float]]:
        """Share of the documents decided, and of these that are wrong, each with the ends of its 95 % interval.

        The interval is exact; Wilson's covers less where few documents are wrong. If none is decided, none has a share.

        Source:
            Clopper and Pearson 1934, "The Use of Confidence or Fiducial Limits".
        """
        return [
            (count / total, *binomtest(count, total).proportion_ci(0.95, method="exact")) if total else (math.nan,) * 3
            for count, total in ((self.decided, self.documents), (self.wrong, self.decided))
        ]

    def __str__(self) -> str:
        shown = ["({:.1f} %, {:.1f} to {:.1f})".format(*(100 * each for each in share)) for share in self.shares]
        of_decided = f"{self.wrong:,} of them wrong {shown[1]}, " if self.decided else ""
        left = f"{self.documents - self.decided:,} are left to a person"
        return f"of {self.documents:,} documents {self.decided:,} are decided {shown[0]}, {of_decided}{left}"


def decided(right: ArrayLike, confidence: ArrayLike, least: float) -> Decided:
    """Return how many documents are decided at a least confidence, and how many of these are wrong.

    Args:
        right: whether each prediction is right [n].
        confidence: probability of each predicted class [n].
        least: result of `least_confidence`; infinite = no document is decided.
    """
    chosen = np.asarray(confidence, dtype=np.float64) >= least
    return Decided(len(chosen), int(chosen.sum()), int((chosen & ~np.asarray(right, dtype=bool)).sum()))


def _clipped(probabilities: ArrayLike) -> np.ndarray:
    return np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST)
