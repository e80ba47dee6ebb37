"""Test predictions of finished runs, side by side, as statistics compare them."""

from pathlib import Path

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, PREDICTIONS
from lib.evaluation.statistics import PairedPredictions


def paired_predictions(grid: pd.DataFrame) -> PairedPredictions:
    """Return what runs predicted on the test documents of one dataset, models in the order of the grid's rows.

    Args:
        grid: runs on one dataset, as `Scope.grid` gives them.

    Raises:
        DataError: a run has no predictions, or other test documents or labels than the first.
    """
    folders = grid.sort_values("seed", kind="stable").groupby("row", sort=False)["folder"].agg(list)
    folders = folders.reindex(grid["row"].unique())
    first: pd.DataFrame | None = None
    predictions = []
    for folder in [Path(folder) for of_seeds in zip(*folders, strict=True) for folder in of_seeds]:
        documents = _test_documents(folder)
        if first is None:
            first, classes = documents, _classes(folder)
        elif not documents["label"].equals(first["label"]):
            raise DataError(
                f"{folder / PREDICTIONS}: other test documents, or other labels, than those of {folders.iloc[0][0]}. "
                "Expected the same, which alone can be compared. Run again whichever is older than its data."
            )
        predictions.append(documents["prediction"].to_numpy(dtype=int))
    assert first is not None  # a grid has runs
    return PairedPredictions(
        models=list(folders.index),
        labels=first["label"].to_numpy(dtype=int),
        predictions=np.reshape(predictions, (-1, len(folders), len(first))),
        documents=pd.factorize(first.index)[0],
        classes=classes,
    )


def _test_documents(folder: Path) -> pd.DataFrame:
    """Return label and prediction of every labelled item, sorted by the id of its document."""
    path = folder / PREDICTIONS
    try:
        documents = pd.read_parquet(path, filters=[("split", "==", "test")]).set_index("id")[["label", "prediction"]]
        twice = documents.index[documents.index.duplicated()]
        items = documents.sort_index().explode(["label", "prediction"]).dropna(subset="label")
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path}: no predictions of test documents ({error!r}). Expected the columns id, label, prediction and "
            "split. Repeat the run, or leave out what compares predictions."
        ) from error
    if len(twice) or items.empty:
        found = f"document {twice[0]} twice" if len(twice) else "no labelled test document"
        raise DataError(f"{path}: {found}. Expected each test document once. Check the ids of the dataset.")
    return items


def _classes(folder: Path) -> int:
    path = folder / CONFIG
    try:
        return len(read_mapping(path)["labels"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: no labels. Expected the names of the classes. Repeat the run.") from error
