"""The baseline that every encoder has to beat: TF-IDF n-grams and logistic regression."""

import importlib.metadata
import logging
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from lib.core.errors import DataError
from lib.core.files import atomic_path, write_json
from lib.core.record import PREDICTIONS
from lib.core.settings.baseline import Baseline
from lib.evaluation.metrics import class_report, classification_metrics

REPORT = "report.json"

logger = logging.getLogger(__name__)


def run_baseline(
    *,
    dataset: str,
    train: str | Path,
    validation: str | Path,
    test: str | Path,
    label_names: Sequence[str],
    settings: Baseline,
    folder: str | Path,
) -> None:
    """Fit the baseline on the training documents and write its report and predictions to `folder`.

    `report.json` holds `dataset`, `metrics` (`eval_*` of validation and `test_*`, named as in a run record),
    `classes` (precision, recall, F1 and support of each class, on test), `features`, `seconds` and `versions`.
    `predictions.parquet` holds `split`, `id`, `label`, `prediction` and `probabilities` of validation and test.

    Args:
        dataset: name of the dataset, for the report.
        train: Parquet file of the training documents: `id`, `text`, `label` (numbered from 0).
        validation: the same of the validation documents.
        test: the same of the test documents.
        label_names: names of the classes [C].
        settings: what is counted.
        folder: where the two files appear, the report last.

    Raises:
        DataError: a file cannot be used, no n-gram is left to count, or training has one class only.
    """
    start = time.perf_counter()
    documents = {
        split: _read(path, len(label_names))
        for split, path in {"train": train, "validation": validation, "test": test}.items()
    }
    classifier = make_pipeline(
        TfidfVectorizer(
            max_features=settings.max_features,
            ngram_range=(1, settings.ngram_max),
            min_df=settings.min_df,
            max_df=settings.max_df,
        ),
        LogisticRegression(solver="lbfgs", max_iter=settings.max_iter),
    )
    if documents["train"]["label"].nunique() < 2:
        raise DataError(f"{train}: only one class in training; expected at least two. Add documents of the others.")
    try:
        classifier.fit(documents["train"]["text"], documents["train"]["label"])
    except ValueError as error:
        raise DataError(
            f"{train}: no n-gram of {len(documents['train'])} documents is left to count ({error}). Expected n-grams "
            f"in at least min_df = {settings.min_df} and at most max_df = {settings.max_df:.0%} of them. Lower min_df, "
            "raise max_df, or give more documents."
        ) from error

    predictions = pd.concat(
        [
            _predict(classifier, documents[split], len(label_names)).assign(split=split)
            for split in ("validation", "test")
        ],
        ignore_index=True,
    )
    metrics = {
        f"{prefix}_{name}": value
        for prefix, split in (("eval", "validation"), ("test", "test"))
        for name, value in _metrics(predictions, split, label_names).items()
    }
    on_test = predictions[predictions["split"] == "test"]
    with atomic_path(Path(folder) / PREDICTIONS) as partial:
        predictions[["split", "id", "label", "prediction", "probabilities"]].to_parquet(partial, index=False)
    write_json(
        Path(folder) / REPORT,
        {
            "dataset": dataset,
            "metrics": metrics,
            "classes": class_report(on_test["label"], on_test["prediction"], label_names),
            "features": len(classifier[0].vocabulary_),
            "seconds": time.perf_counter() - start,
            "versions": {name: importlib.metadata.version(name) for name in ("scikit-learn", "numpy", "scipy")},
        },
    )
    logger.info("%s: baseline reaches a test macro-F1 of %.2f %%", dataset, 100 * metrics["test_f1_macro"])


def _read(path: str | Path, classes: int) -> pd.DataFrame:
    try:
        documents = pd.read_parquet(path, columns=["id", "text", "label"])
    except (OSError, ValueError) as error:  # pyarrow's own errors derive from these two
        raise DataError(
            f"{path}: cannot be read ({error}). Expected a Parquet file with the columns id, text and label. "
            "Prepare the dataset again."
        ) from error
    if documents.empty or not documents["label"].between(0, classes - 1).all():
        raise DataError(
            f"{path}: {len(documents)} documents with the labels {sorted(documents['label'].unique())}; expected at "
            f"least one, labelled 0 to {classes - 1}. Prepare the dataset again, or list every class in `labels`."
        )
    return documents


def _predict(classifier, documents: pd.DataFrame, classes: int) -> pd.DataFrame:
    # A class that training never saw has no column in the classifier and keeps probability 0.
    probabilities = np.zeros((len(documents), classes))
    probabilities[:, classifier.classes_] = classifier.predict_proba(documents["text"])
    return pd.DataFrame(
        {
            "id": documents["id"].to_numpy(),
            "label": documents["label"].to_numpy(),
            "prediction": probabilities.argmax(axis=1),
            "probabilities": list(probabilities),
        }
    )


def _metrics(predictions: pd.DataFrame, split: str, label_names: Sequence[str]) -> dict[str, float]:
    rows = predictions[predictions["split"] == split]
    return classification_metrics(rows["label"], np.stack(rows["probabilities"]), label_names)
