"""Descriptions of texts, as `lib.data.description` leaves them: one row per document."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from lib.core.errors import DataError

COLUMNS = ["split", "id", "label", "words", "language", "repeated", "near_copy"]
NEAR_COPIES = b"near_copies"


def load_texts(file: str | Path) -> pd.DataFrame:
    """Return the description of a dataset's texts, with the columns `COLUMNS`.

    Raises:
        DataError: it cannot be read, or lacks a column or all documents.
    """
    try:
        texts = pd.read_parquet(file, columns=COLUMNS)
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(file, error) from error
    if texts.empty:
        raise _damaged(file, "no documents")
    return texts


def main_languages(languages: pd.Series, threshold: float) -> pd.Series:
    """Return languages with those whose share is below `threshold` as `other`."""
    shares = languages.value_counts(normalize=True)
    return languages.astype(object).where(languages.map(shares).astype(float) >= threshold, "other")


def near_copies_explained(files: Iterable[str | Path]) -> str:
    """Return what near copies are in descriptions of texts, as a sentence for each way of telling.

    Raises:
        DataError: a description cannot be read, or does not say.
    """
    return " ".join(dict.fromkeys(_explained(_settings(file)) for file in files))


def _settings(file: str | Path) -> Mapping[str, Any]:
    try:
        return json.loads((pq.read_schema(file).metadata or {})[NEAR_COPIES])
    except (OSError, ValueError, KeyError) as error:
        raise _damaged(file, error) from error


def _explained(settings: Mapping[str, Any]) -> str:
    unit = settings["unit"] if settings["size"] > 1 else settings["unit"].removesuffix("s")
    return (
        f"A near copy shares at least {settings['threshold']:.0%} of the runs of {settings['size']} {unit} that both "
        f"texts have (Jaccard similarity); of those that are just so near, {settings['recall']:.1%} are expected to be "
        "found, and no others are counted."
    )


def _damaged(file: str | Path, reason: Exception | str) -> DataError:
    return DataError(f"{file}: describes no texts ({reason!r}). Make it again with scripts/describe_dataset.py.")
