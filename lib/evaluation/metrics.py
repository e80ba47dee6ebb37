"""Metrics of predictions, the same for encoders and baselines.

n documents, or labelled tokens of documents; C classes.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import matthews_corrcoef, mean_absolute_error, mean_squared_error, precision_recall_fscore_support

from lib.core.errors import DataError, RunError

MOST_EXPONENT = 709
"""Above that, the exponential overflows."""
PER_CLASS_UP_TO = 10
"""Most classes with metrics per class."""


def classification_metrics(labels: ArrayLike, probabilities: ArrayLike, label_names: Sequence[str]) -> dict[str, float]:
    """Return the metrics of a classification: fractions, a correlation between -1 and 1, the entropy in nats.

    Averages run over the full set of labels: a class that neither occurs nor is predicted counts as 0. Only balanced
    accuracy is the mean recall of the classes that occur. Among equal probabilities the lower class is first.

    Args:
        labels: true classes [n], numbered from 0.
        probabilities: predicted distribution of each document [n, C].
        label_names: names of the classes [C].

    Returns:
        `accuracy`, `balanced_accuracy`, `matthews`, `{precision,recall,f1}_{macro,micro}`, `mean_confidence`,
        `mean_entropy`;
        `top_3_accuracy` and `top_5_accuracy` where there are more classes than that; up to 10 classes also
        `{precision,recall,f1}_class_<name>`.

    Raises:
        DataError: no documents, or labels that do not fit probabilities and names.
        RunError: a probability is NaN or inf.
    """
    labels, probabilities = np.asarray(labels), np.asarray(probabilities, dtype=np.float64)
    _check(labels, probabilities, len(label_names))

    ranking = np.argsort(-probabilities, axis=1, kind="stable")  # [n, C], best class first
    metrics = decision_metrics(labels, ranking[:, 0], label_names)
    metrics["mean_confidence"] = probabilities.max(axis=1).mean()
    metrics["mean_entropy"] = entr(probabilities).sum(axis=1).mean()
    for k in (3, 5):
        if len(label_names) > k:
            metrics[f"top_{k}_accuracy"] = (ranking[:, :k] == labels[:, None]).any(axis=1).mean()
    return {name: float(value) for name, value in metrics.items()}


def decision_metrics(labels: ArrayLike, predictions: ArrayLike, label_names: Sequence[str]) -> dict[str, float]:
    """Return the `classification_metrics` that depend only on the predicted classes, as fractions.

    Args:
        labels: true classes [n], numbered from 0.
        predictions: predicted classes [n]; -1 = none, which is always wrong.
        label_names: names of the classes [C].

    Returns:
        `accuracy`, `balanced_accuracy`, `matthews` (the correlation; 0 if all labels or all predictions are equal),
        `{precision,recall,f1}_{macro,micro}`; up to 10 classes also `{precision,recall,f1}_class_<name>`.
    """
    labels, classes, names = np.asarray(labels), range(len(label_names)), ("precision", "recall", "f1")
    occurring = np.unique(labels)
    recall = precision_recall_fscore_support(labels, predictions, labels=occurring, average="macro", zero_division=0)[1]
    metrics = {
        "accuracy": np.equal(labels, predictions).mean(),
        "balanced_accuracy": recall,
        # scikit-learn also gives 0 there, but warns.
        "matthews": matthews_corrcoef(labels, predictions) if min(map(_values, (labels, predictions))) > 1 else 0.0,
    }
    for average in ("macro", "micro"):
        scores = precision_recall_fscore_support(labels, predictions, labels=classes, average=average, zero_division=0)
        metrics |= {f"{name}_{average}": score for name, score in zip(names, scores[:3], strict=True)}
    if len(label_names) <= PER_CLASS_UP_TO:
        for row in class_report(labels, predictions, label_names):
            metrics |= {f"{name}_class_{row['label']}": row[name] for name in names}
    return {name: float(value) for name, value in metrics.items()}


def regression_metrics(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Return the metrics of predicted numbers.

    Args:
        labels: true numbers [n].
        predictions: predicted numbers [n].

    Returns:
        `pearson` and `spearman`, correlations between -1 and 1, 0 if all labels or all predictions are equal; `mse`
        and `mae`, the mean squared and the mean absolute error.

    Raises:
        ValueError: no documents, or different numbers of labels and predictions.
        RunError: a prediction is NaN or inf.
    """
    labels, predictions = (np.asarray(each, dtype=np.float64) for each in (labels, predictions))
    require_finite(predictions[:, None])
    told = min(map(_values, (labels, predictions))) > 1
    return {
        "pearson": float(pearsonr(labels, predictions).statistic) if told else 0.0,
        "spearman": float(spearmanr(labels, predictions).statistic) if told else 0.0,
        "mse": float(mean_squared_error(labels, predictions)),
        "mae": float(mean_absolute_error(labels, predictions)),
    }


def class_report(labels: ArrayLike, predictions: ArrayLike, label_names: Sequence[str]) -> list[dict[str, float | str]]:
    """Return one row per class: `label`, `precision`, `recall`, `f1` (fractions) and `support` (documents).

    Args:
        labels: true classes [n], numbered from 0.
        predictions: predicted classes [n].
        label_names: names of the classes [C].
    """
    columns = precision_recall_fscore_support(labels, predictions, labels=range(len(label_names)), zero_division=0)
    return [
        {"label": name, "precision": float(p), "recall": float(r), "f1": float(f), "support": int(s)}
        for name, p, r, f, s in zip(label_names, *columns, strict=True)
    ]


def _check(labels: np.ndarray, probabilities: np.ndarray, classes: int) -> None:
    if not len(labels) or probabilities.shape != (len(labels), classes):
        shape = probabilities.shape
        raise DataError(
            f"{len(labels)} labels and probabilities of shape {shape} do not fit each other or {classes} classes."
        )
    if labels.min() < 0 or labels.max() >= classes:
        found = f"labels run from {labels.min()} to {labels.max()}"
        raise DataError(f"{found}; expected 0 to {classes - 1}. Fix the labels, or list every class in `labels`.")
    require_finite(probabilities)


def _values(numbers: ArrayLike) -> int:
    """Return the number of different values."""
    return len(np.unique(numbers))


def require_finite(predictions: np.ndarray) -> None:
    """Refuse predictions [n, C] that are NaN or inf."""
    if broken := (~np.isfinite(predictions)).any(axis=1).sum():
        found = f"{broken} of {len(predictions)} predictions are NaN or inf: the training has diverged."
        raise RunError(f"{found} Lower the learning rate, or train in fp32 or bf16.")


def perplexity(loss: float) -> float:
    """Return the perplexity for a mean cross-entropy in nats; infinite if it overflows."""
    return math.inf if loss > MOST_EXPONENT else math.exp(loss)
