"""Calibration: accuracy compared with confidence, the probability of the predicted class.

n documents.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.calibration import calibration_curve


def reliability(right: ArrayLike, confidence: ArrayLike, bins: int) -> pd.DataFrame:
    """Return the accuracy of predictions by confidence.

    Args:
        right: whether each prediction is right [n].
        confidence: probability of each prediction, between 0 and 1 [n].
        bins: number of equally wide intervals of confidence, each without its lower end.

    Returns:
        One row per non-empty bin: `confidence` (mean) and `accuracy` as fractions, and `documents`.

    Raises:
        ValueError: a confidence is not between 0 and 1, or there are no predictions.
    """
    right, confidence = np.asarray(right, dtype=int), np.asarray(confidence, dtype=float)
    confidence = np.where(confidence > 1, confidence.round(6), confidence)  # sums of probabilities miss 1 by rounding
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise ValueError(f"confidence from {confidence.min()} to {confidence.max()}, expected numbers between 0 and 1")
    accuracy, mean = calibration_curve(right, confidence, n_bins=bins)
    documents = np.bincount(np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], confidence))
    return pd.DataFrame({"confidence": mean, "accuracy": accuracy, "documents": documents[documents > 0]})


def joined(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return the bins of `reliability`, joined with their neighbours until each has enough documents.

    An accuracy of n documents has a standard error of up to 50 / root n points, so single documents say nothing.

    Args:
        table: result of `reliability`.
        least: minimum number of documents per bin; a remainder at the upper end joins the last bin.
    """
    numbers: list[int] = []
    number = held = 0
    for documents in table["documents"]:
        if held >= least:
            number, held = number + 1, 0
        numbers.append(number)
        held += documents
    if held < least and number:
        numbers = [min(each, number - 1) for each in numbers]
    sums = table[["confidence", "accuracy"]].mul(table["documents"], axis=0).groupby(numbers).sum()
    documents = table.groupby(numbers)["documents"].sum()
    return sums.div(documents, axis=0).assign(documents=documents)


def expected_calibration_error(table: pd.DataFrame) -> float:
    """Return the mean distance between confidence and accuracy, weighted by the documents of each bin, as a fraction.

    Args:
        table: result of `reliability`.

    Source:
        Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3.
    """
    return float(np.average((table["accuracy"] - table["confidence"]).abs(), weights=table["documents"]))
