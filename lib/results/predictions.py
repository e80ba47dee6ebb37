"""Predictions of finished runs."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, PREDICTIONS

SPANS = ["true_positives", "false_positives", "false_negatives"]
"""Numbers of characters, which a run that finds spans leaves of every document."""


def finds_spans(folder: str | Path) -> bool:
    """Whether a run found spans; not if its predictions cannot be read, which whoever loads them is told."""
    try:
        return set(SPANS) <= set(pq.read_schema(Path(folder) / PREDICTIONS).names)
    except (OSError, ValueError):
        return False


def load_predictions(folder: str | Path, columns: Sequence[str], split: str = "test") -> pd.DataFrame:
    """Return what a run predicted on a split, one row per document.

    Args:
        folder: of the run.
        columns: of `id`, `label`, `prediction`, `probabilities`, `group`; of spans, also of `SPANS`.
        split: `validation` or `test`.

    Raises:
        DataError: the file cannot be read, or has no such column, an id twice, or no document of the split.
    """
    path = Path(folder) / PREDICTIONS
    try:
        documents = pd.read_parquet(path, filters=[("split", "==", split)])[list(columns)]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: lacks predictions ({error!r}). Repeat the run.") from error
    if documents.empty:
        raise DataError(f"{path}: has no document of the split {split}. Repeat the run.")
    if "id" in documents and documents["id"].duplicated().any():
        twice = documents.loc[documents["id"].duplicated(), "id"].iloc[0]
        raise DataError(f"{path}: has document {twice} twice. Check the ids of the dataset.")
    return documents


def load_items(folder: str | Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return `label` and `prediction` of every labelled item on test: a document, or a labelled word of one.

    Args:
        folder: of the run.
        columns: further ones of each document: `id`, `group`.

    Raises:
        DataError: the file cannot be read, has no such column, an id twice, or no labelled item of test.
    """
    documents = load_predictions(folder, ["label", "prediction", *columns])
    path = Path(folder) / PREDICTIONS
    try:
        items = documents.explode(["label", "prediction"]).dropna(subset="label")
        items = items.astype({"label": int, "prediction": int})
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: its predictions are no classes ({error}). Repeat the run.") from error
    if items.empty:
        raise DataError(f"{path}: has no labelled item of the split test. Check the labels of the dataset.")
    return items


def class_names(folder: str | Path) -> list[str]:
    """Return the names of the classes that a run told apart, in the order of their numbers.

    Raises:
        ConfigError: its settings cannot be read.
        DataError: they name no classes.
    """
    path = Path(folder) / CONFIG
    try:
        return list(read_mapping(path)["labels"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: names no classes ({error!r}). Repeat the run.") from error
