"""Test predictions of finished runs, side by side, as statistics compare them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lib.core.errors import DataError
from lib.core.record import PREDICTIONS
from lib.evaluation.statistics import Paired, PairedPredictions, PairedSpans
from lib.results.predictions import SPANS, class_names, finds_spans, load_items, load_predictions


def paired_predictions(grid: pd.DataFrame) -> Paired:
    """Return what runs predicted on the test documents of one dataset, models in the order of the grid's rows.

    Args:
        grid: runs on one dataset, as `Scope.grid` gives them.

    Raises:
        DataError: a run has no predictions, or other test documents or labels than the first.
    """
    folders = grid.sort_values("seed", kind="stable").groupby("row", sort=False)["folder"].agg(list)
    folders = folders.reindex(grid["row"].unique())
    in_order = [Path(folder) for of_seeds in zip(*folders, strict=True) for folder in of_seeds]
    if finds_spans(in_order[0]):
        runs = _alike(in_order, _spans)
        counts = np.reshape([run[SPANS].to_numpy().T for run in runs], (-1, len(folders), 3, len(runs[0])))
        return PairedSpans(list(folders.index), counts[:, :, 0], counts[:, :, 1] + counts[:, :, 2])
    runs = _alike(in_order, lambda folder: load_items(folder, ["id"]).set_index("id").sort_index(kind="stable"))
    return PairedPredictions(
        models=list(folders.index),
        labels=runs[0]["label"].to_numpy(),
        predictions=np.reshape([run["prediction"].to_numpy() for run in runs], (-1, len(folders), len(runs[0]))),
        documents=pd.factorize(runs[0].index)[0],
        classes=len(class_names(in_order[0])),
    )


def _spans(folder: Path) -> pd.DataFrame:
    """Return the counts of a run by document, and its true spans as text, which can be compared."""
    documents = load_predictions(folder, ["id", "label", *SPANS]).set_index("id").sort_index()
    return documents.assign(label=[str([span.tolist() for span in spans]) for spans in documents["label"]])


def _alike(folders: Sequence[Path], read: Callable[[Path], pd.DataFrame]) -> list[pd.DataFrame]:
    """Return what is read of each run, all of the same documents with the same labels."""
    runs = [read(folder) for folder in folders]
    for folder, run in zip(folders, runs, strict=True):
        if not run["label"].equals(runs[0]["label"]):
            raise DataError(
                f"{folder / PREDICTIONS}: other test documents, or other labels, than those of {folders[0]}. "
                "Expected the same, which alone can be compared. Run again whichever is older than its data."
            )
    return runs
