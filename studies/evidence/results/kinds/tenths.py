"""Where the evidence stands: a table of the score of TF-IDF when it reads one tenth of each document."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.backbones.settings import BACKBONES
from lib.core.errors import DataError
from lib.evaluation.statistics import Estimate, PairedPredictions, holm
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import SMALL_P, Column, Table

PARTS = 10
"""Parts of a document, of equal numbers of words."""
WHOLE = "all"
"""Name of the row that reads all of a document."""
CHARACTERS = {"unit": "characters", "ngram_max": 3}
"""Settings of TF-IDF for scripts without spaces between words."""


class TenthsTable(TableSettings):
    """Per dataset one row for TF-IDF on all of each document, and one for each tenth of it."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["documents"]] = "documents"
    splits: ClassVar[tuple[str, ...]] = ("train", "test")

    kind: Literal["tenths"]
    unit: Literal["words", "characters"] = "words"
    """Unit that TF-IDF counts, and that documents are divided by: words and pairs of them, or up to 3 `characters`."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals."""

    def make(self, scope: Scope) -> Table:
        """Return macro-F1 on test with its interval over documents, and how far each tenth is from their mean.

        Every row is fitted to the same part of the training documents as it reads of the test documents. The p-value
        is that of the difference from the mean of the ten tenths, corrected by Holm for the ten of a dataset.

        Raises:
            DataError: documents cannot be read, or TF-IDF finds nothing to count.
        """
        settings = CHARACTERS if self.unit == "characters" else {}
        rows = []
        for (dataset, labels, _), *files in zip(scope.documents[::2], scope.files[::2], scope.files[1::2], strict=True):
            train, test = map(_documents, files)
            predictions = predictions_by_part(train["text"], train["label"], test["text"], len(labels), settings)
            paired = scored(test["label"], predictions, len(labels))
            rows += [{"dataset": dataset} | row for row in _rows(paired, self.confidence)]
        columns = {
            "f1": Column("F1 [%]", 1),
            "low": Column("low", 1),
            "high": Column("high", 1),
            "difference": Column("from the mean of the tenths [points]", 1, signed=True),
            "p": Column("p (Holm)", 4),
        }
        note = (
            f"low, high: interval of {100 * self.confidence:g} % over test documents. A score shows what words at a "
            "place tell a linear classifier; evidence that needs their order or distance is invisible to it. p (Holm): "
            f"of no difference from the mean, corrected for the {PARTS} tenths of a dataset. {SMALL_P}"
        )
        return Table(pd.DataFrame(rows), columns, note)


def _rows(paired: PairedPredictions, confidence: float) -> list[dict[str, object]]:
    differences, p_values = against_mean(paired)
    rows: list[dict[str, object]] = []
    for number, name in enumerate(paired.models):
        score = paired.score(number)
        low, high = score.score_interval(confidence)
        row = {"tenth": name, "f1": 100 * score.mean, "low": 100 * low, "high": 100 * high}
        if name != WHOLE:
            row |= {"difference": 100 * differences[number - 1].mean, "p": p_values[number - 1]}
        rows.append(row)
    return rows


def _documents(file: str | Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(file, columns=["text", "label"])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file}: cannot be read ({error}). Expected prepared documents. Make it again.") from error


def predictions_by_part(
    train: pd.Series,
    labels: pd.Series,
    test: pd.Series,
    classes: int,
    settings: Mapping[str, object],
) -> np.ndarray:
    """Return the classes that TF-IDF predicts from all of each document, and from each tenth [1 + PARTS, test].

    There is no validation to choose by, so that its penalty is that of C = 1, and classes have no weights.

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
