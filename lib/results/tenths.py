"""The score of TF-IDF when it reads one tenth of each document: where the evidence stands, before an encoder trains."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.backbones.settings import BACKBONES
from lib.evaluation.statistics import Estimate, PairedPredictions, holm

PARTS = 10
"""Parts of a document, of equal numbers of words."""
WHOLE = "all"
"""Name of the row that reads all of a document."""


def predictions_by_part(
    train: pd.Series, labels: pd.Series, test: pd.Series, classes: int, settings: Mapping[str, object]
) -> np.ndarray:
    """Return the classes that TF-IDF predicts from all of each document, and from each tenth [1 + tenths, test].

    Args:
        train: training texts.
        labels: their classes.
        test: texts to classify.
        classes: number of classes.
        settings: settings of TF-IDF that differ from its defaults.

    Raises:
        DataError: a part of the training texts has nothing to count.
    """
    tfidf = BACKBONES.load("tfidf", "backbone")
    parts = [None, *((number / PARTS, (number + 1) / PARTS) for number in range(PARTS))]
    found = []
    for part in parts:
        backbone = tfidf.Backbone(BACKBONES.parse({"kind": "tfidf", "part": part} | dict(settings)), seed=0)
        backbone.fit(train, labels)
        found.append(backbone.class_probabilities(test, classes).argmax(axis=1))
    return np.stack(found)


def scored(labels: pd.Series, predictions: np.ndarray, classes: int) -> PairedPredictions:
    """Return the predictions of all rows, as statistics compare them.

    Args:
        labels: true classes [n].
        predictions: predicted classes [1 + tenths, n].
        classes: number of classes.
    """
    names = [WHOLE, *(str(number + 1) for number in range(len(predictions) - 1))]
    true = labels.to_numpy(dtype=int)
    return PairedPredictions(names, true, predictions[None], np.arange(len(true)), classes)


def against_mean(paired: PairedPredictions) -> tuple[list[Estimate], np.ndarray]:
    """Return how far F1 of each tenth is from the mean of all tenths, and the p-values, corrected by Holm [tenths]."""
    f1, left_out = paired.f1()[:, 1:], paired.left_out()[..., 1:]
    means = f1.mean(axis=-1), left_out.mean(axis=-1)
    found = [Estimate(f1[:, tenth] - means[0], left_out[..., tenth] - means[1]) for tenth in range(f1.shape[1])]
    return found, holm([each.p_value() for each in found])
