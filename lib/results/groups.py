"""Accuracy by group of test documents, such as their distance or length, from the predictions of finished runs."""

import pandas as pd

from lib.results.predictions import load_items


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
    shares = {(run.dataset, run.row, run.seed): _shares(run.folder) for run in grid.itertuples()}
    percent = 100 * pd.concat(shares, names=["dataset", "row", "seed"])
    return percent.groupby(["dataset", "row", "group"]).agg(["mean", "std"])


def _shares(folder: str) -> pd.Series:
    """Return the share of right labelled items by group."""
    items = load_items(folder, ["group"])
    return (items["label"] == items["prediction"]).groupby(items["group"]).mean()
