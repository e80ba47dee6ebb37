"""Predictions of finished runs."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, PREDICTIONS


def load_predictions(folder: str | Path, columns: Sequence[str]) -> pd.DataFrame:
    """Return what a run predicted on test, one row per document.

    Args:
        folder: of the run.
        columns: of `id`, `label`, `prediction`, `probabilities`, `group`.

    Raises:
        DataError: the file cannot be read, or has no such column or no document of test.
    """
    path = Path(folder) / PREDICTIONS
    try:
        documents = pd.read_parquet(path, filters=[("split", "==", "test")])[list(columns)]
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{path}: lacks predictions ({error!r}). Repeat the run.") from error
    if documents.empty:
        raise DataError(f"{path}: has no document of the split test. Repeat the run.")
    return documents


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
