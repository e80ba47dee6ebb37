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
    train: pd.Series,
    labels: pd.Series,
    test: pd.Series,
    classes: int,
    settings: Mapping[str, object],
    tenths: int = PARTS,
) -> np.ndarray:
    """Return the classes that TF-IDF predicts from all of each document, and from each tenth [1 + tenths, test].

    There is no validation to choose by, so that its penalty is that of C = 1, and classes have no weights.

    Args:
        train: training texts.
        labels: their classes.
        test: texts to classify.
        classes: number of classes.
        settings: settings of TF-IDF that differ from its defaults.
        tenths: how many tenths are read; the first ones.

    Raises:
        DataError: a part of the training texts has nothing to count.
    """
    tfidf = BACKBONES.load("tfidf", "backbone")
    parts = [None, *((number / PARTS, (number + 1) / PARTS) for number in range(tenths))]
    found = []
    for part in parts:
        values = {"kind": "tfidf", "C": 1.0, "class_weight": None, "part": part} | dict(settings)
        backbone = tfidf.Backbone(BACKBONES.parse(values), seed=0)
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
    tenths = len(paired.models) - 1
    from_mean = np.eye(tenths + 1)[1:] - np.append(0, np.full(tenths, 1 / tenths))  # [tenths, 1 + tenths]
    found = [paired.combined(weights) for weights in from_mean]
    return found, holm([each.p_value() for each in found])
