"""Test predictions of finished runs, side by side, as statistics compare them."""

from pathlib import Path

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.core.record import PREDICTIONS
from lib.evaluation.statistics import PairedPredictions
from lib.results.predictions import class_names, load_items


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
        items = load_items(folder, ["id"]).set_index("id").sort_index(kind="stable")
        if first is None:
            first, classes = items, len(class_names(folder))
        elif not items["label"].equals(first["label"]):
            raise DataError(
                f"{folder / PREDICTIONS}: other test documents, or other labels, than those of {folders.iloc[0][0]}. "
                "Expected the same, which alone can be compared. Run again whichever is older than its data."
            )
        predictions.append(items["prediction"].to_numpy())
    assert first is not None  # a grid has runs
    return PairedPredictions(
        models=list(folders.index),
        labels=first["label"].to_numpy(),
        predictions=np.reshape(predictions, (-1, len(folders), len(first))),
        documents=pd.factorize(first.index)[0],
        classes=classes,
    )
