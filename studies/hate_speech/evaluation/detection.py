"""Separation of one class, the positive one, from all others by probabilities: at one threshold and over all.

n documents.
"""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score


def detection_scores(positive: ArrayLike, probabilities: ArrayLike, threshold: float) -> dict[str, float]:
    """Return F1 of the positive class at 0.5 and at a threshold, and threshold-free scores, as fractions.

    Args:
        positive: whether each document is of the class [n].
        probabilities: probability of the class [n].
        threshold: threshold chosen on other documents.

    Returns:
        `f1_half`, `f1_threshold`, `roc_auc`, `average_precision`.

    Raises:
        ValueError: all documents are of the class, or none.
    """
    positive, probabilities = np.asarray(positive, dtype=bool), np.asarray(probabilities, dtype=float)
    if positive.all() or not positive.any():
        raise ValueError("all documents are of the class, or none")
    return {
        "f1_half": float(f1_score(positive, probabilities >= 0.5, zero_division=0)),
        "f1_threshold": float(f1_score(positive, probabilities >= threshold, zero_division=0)),
        "roc_auc": float(roc_auc_score(positive, probabilities)),
        "average_precision": float(average_precision_score(positive, probabilities)),
    }
