"""Accuracy by group of test documents, such as their distance or length, from the predictions of finished runs."""

from pathlib import Path

import pandas as pd

from lib.core.errors import DataError
from lib.core.record import PREDICTIONS


def accuracy_by_group(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy on test in percent of every row and group.

    The accuracy of a group is the share of right ones among the labelled items of all its documents: the documents
    themselves, or their labelled tokens.

    Args:
        grid: runs, as `Scope.grid` gives them.

    Returns:
        `mean` and standard deviation `std` over the seeds (NaN with one seed), by `dataset`, `row` and `group`.

    Raises:
        DataError: a run has no predictions by group.
    """
    shares = {(run.dataset, run.row, run.seed): _shares(Path(run.folder)) for run in grid.itertuples()}
    percent = 100 * pd.concat(shares, names=["dataset", "row", "seed"])
    return percent.groupby(["dataset", "row", "group"]).agg(["mean", "std"])


def _shares(folder: Path) -> pd.Series:
    """Return the share of right labelled items by group."""
    path = folder / PREDICTIONS
    try:
        documents = pd.read_parquet(path, filters=[("split", "==", "test")])[["label", "prediction", "group"]]
        items = documents.explode(["label", "prediction"]).dropna(subset="label")
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path}: no predictions by group ({error!r}). Expected the columns label, prediction, split and group. "
            "Name the column of the groups in the dataset's setting `group`, and repeat the run."
        ) from error
    return (items["label"] == items["prediction"]).groupby(items["group"]).mean()
