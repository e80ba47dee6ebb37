"""Scores, thresholds and decisions where documents have several classes, or none.

n documents; C classes, numbered from 0.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    hamming_loss,
    ndcg_score,
    precision_recall_fscore_support,
)

from lib.core.errors import DataError
from lib.evaluation.decisions import threshold
from lib.evaluation.metrics import PER_CLASS_UP_TO, class_report, require_finite

AVERAGES = ("micro", "macro", "weighted", "samples")
RANKS = (1, 5)
"""Most likely classes that scores of rankings look at."""


def indicators(sets: Iterable[Sequence[int]], classes: int) -> sparse.csr_matrix:
    """Return which classes documents have, true or false [n, C].

    Args:
        sets: classes of each document, each once.
        classes: C.
    """
    sets = [*sets]
    ends = np.cumsum([0, *map(len, sets)])
    numbers = np.concatenate([np.asarray(each, dtype=np.int64) for each in sets]) if ends[-1] else np.zeros(0, np.int64)
    return sparse.csr_matrix((np.ones(len(numbers), bool), numbers, ends), shape=(len(sets), classes))


def sets_of(chosen: np.ndarray) -> list[np.ndarray]:
    """Return the classes of each document, in order [n], of indicators [n, C]."""
    return [np.flatnonzero(row).astype(np.int32) for row in chosen]


def chosen_thresholds(labels: np.ndarray, probabilities: np.ndarray, *, per_class: bool) -> np.ndarray:
    """Return the least probability of each class that is given [C], as documents with labels show it.

    Args:
        labels: whether each document has each class [n, C].
        probabilities: of the classes [n, C].
        per_class: the one with the greatest F1 of each class by itself; of a class that no document has, and otherwise
            of all, the one with the greatest F1 of all decisions together. Among equals the highest.

    Raises:
        DataError: no document has a label.
    """
    found = np.full(labels.shape[1], threshold(probabilities.ravel(), labels.ravel(), "f1"))
    for number in np.flatnonzero(labels.any(axis=0)) if per_class else ():
        found[number] = threshold(probabilities[:, number], labels[:, number], "f1")
    return found


def label_set_metrics(
    labels: ArrayLike, probabilities: ArrayLike, decided: ArrayLike, label_names: Sequence[str]
) -> dict[str, float]:
    """Return the scores of sets of classes, as fractions.

    Averages run over all classes: one that neither occurs nor is predicted counts as 0, and so does an average
    precision of a class that does not occur. In `samples`, a document without a label counts as 0; scores of rankings
    leave it out, and equal probabilities share their ranks in nDCG, but have the lower class first elsewhere.

    Args:
        labels: whether each document has each class [n, C].
        probabilities: of the classes [n, C].
        decided: whether each document is given each class [n, C].
        label_names: names of the classes [C].

    Returns:
        `{precision,recall,f1}_{micro,macro,weighted,samples}`; `subset_accuracy`, the share of documents whose set is
        right; `hamming_loss`, the share of wrong decisions; `average_precision_{micro,macro}`; for k = 1 and 5, if
        there are more classes, `recall_at_k`, the share of a document's labels among its k likeliest classes,
        `r_precision_at_k`, which divides by k if the document has more labels, and `ndcg_at_k`; up to 10 classes also
        `{precision,recall,f1}_class_<name>`.

    Raises:
        DataError: no documents, or no document has a label, or the arguments do not fit each other.
        RunError: a probability is NaN or inf.

    Source:
        Chalkidis et al. 2019, "Large-Scale Multi-Label Text Classification on EU Legislation", section 4, for the
        scores of rankings; all others, and nDCG, are those of scikit-learn.
    """
    true, given = (np.asarray(each, dtype=bool) for each in (labels, decided))
    probabilities = np.asarray(probabilities, dtype=np.float64)
    shape = (len(true), len(label_names))
    if not len(true) or not shape == true.shape == given.shape == probabilities.shape:
        shapes = ", ".join(str(each.shape) for each in (true, probabilities, given))
        raise DataError(f"labels, probabilities and decisions of shapes {shapes} do not fit {shape[1]} classes.")
    if not true.any():
        raise DataError(f"none of {len(true)} documents has a label. Expected some that do.")
    require_finite(probabilities)
    scores: dict[str, Any] = {"subset_accuracy": accuracy_score(true, given), "hamming_loss": hamming_loss(true, given)}
    for average in AVERAGES:
        found = precision_recall_fscore_support(true, given, average=average, zero_division=0)
        scores |= {f"{name}_{average}": each for name, each in zip(("precision", "recall", "f1"), found, strict=False)}
    occurs = true.any(axis=0)
    of_classes = average_precision_score(true[:, occurs], probabilities[:, occurs], average=None)
    scores["average_precision_macro"] = np.sum(of_classes) / shape[1]
    scores["average_precision_micro"] = average_precision_score(true, probabilities, average="micro")
    scores |= _rank_scores(true, probabilities)
    if shape[1] <= PER_CLASS_UP_TO:
        for row in class_report(true, given, label_names):
            scores |= {f"{name}_class_{row['label']}": row[name] for name in ("precision", "recall", "f1")}
    return {name: float(value) for name, value in scores.items()}


def _rank_scores(true: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    labelled = true.any(axis=1)
    true, probabilities = true[labelled], probabilities[labelled]
    best = np.argsort(-probabilities, axis=1, kind="stable")[:, : max(RANKS)]  # best class first
    right, number = np.take_along_axis(true, best, axis=1), true.sum(axis=1)
    scores = {}
    for k in (k for k in RANKS if k < true.shape[1]):
        hits = right[:, :k].sum(axis=1)
        scores[f"recall_at_{k}"] = (hits / number).mean()
        scores[f"r_precision_at_{k}"] = (hits / np.minimum(number, k)).mean()
        scores[f"ndcg_at_{k}"] = ndcg_score(true, probabilities, k=k)
    return scores
