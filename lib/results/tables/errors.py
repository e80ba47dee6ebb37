"""How often models err on which texts: short or long ones, copied ones, ones in other languages."""

from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import Fraction
from lib.results.predictions import load_items
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table
from lib.results.texts import load_texts, main_languages, near_copies_explained


class Settings(TableSettings):
    """One table per dataset: a row per model, its error rate on test by what the texts are like."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_texts: ClassVar[bool] = True

    kind: Literal["errors"]
    stage: str = Field(description="Stage whose runs it shows.")
    by: Literal["words", "near_copy", "language"] = Field(
        "words",
        description="Property that groups the test documents: their length, in quarters; whether training has a "
        "near copy; their language.",
    )
    threshold: Fraction = Field(0.01, description="Share below which languages are summed up as `other`.")


def make(settings: Settings, scope: Scope) -> Table:
    """Return error rates on test in percent: one row per model, one column per part of the documents.

    With more than one seed these are means with a standard deviation. A rate is the share of wrong ones
    among the labelled items of all documents of a part: the documents themselves, or their labelled words.

    Raises:
        DataError: a run or a description is missing or duplicated, or the two do not fit each other.
    """
    ((dataset, file),) = scope.descriptions.items()
    texts = load_texts(file)
    parts = _parts(texts[texts["split"] == "test"].set_index("id"), settings)
    runs = scope.grid(settings.stage)
    rates = {(run.row, run.seed): _rates(run.folder, parts, dataset) for run in runs.itertuples()}
    of_models = (100 * pd.concat(rates, names=["row", "seed"])).unstack("part").groupby("row")
    means, deviations = (each.loc[[*scope.models]] for each in (of_models.mean(), of_models.std()))
    frame, columns = pd.DataFrame({"model": scope.models}), {}
    for part, documents in parts.value_counts(sort=False).items():
        frame[part] = means[part].to_numpy()
        columns[part] = Column(f"{part} (n = {documents:,}) [%]", 2)
        if deviations.notna().any(axis=None):
            frame[f"{part}_sd"] = deviations[part].to_numpy()
    return Table(frame, columns, note=near_copies_explained([file]) if settings.by == "near_copy" else None)


def _parts(texts: pd.DataFrame, settings: Settings) -> pd.Series:
    """Return the part that each document is in, in order, by its identity."""
    if settings.by == "language":
        parts = main_languages(texts["language"], settings.threshold)
        return parts.astype(pd.CategoricalDtype(parts.value_counts().index))
    if settings.by == "near_copy":
        numbers = texts["near_copy"].astype(int)
        names = {0: "no near copy in training", 1: "near copy in training"}
    else:
        words = texts["words"]
        numbers = pd.Series(np.searchsorted(words.quantile([0.25, 0.5, 0.75]).unique(), words), words.index)
        limits = words.groupby(numbers).agg(["min", "max"]).itertuples()
        names = {number: f"{low} to {high} words" if low < high else f"{low} words" for number, low, high in limits}
    there = [name for number, name in names.items() if (numbers == number).any()]
    return numbers.map(names).astype(pd.CategoricalDtype(there))


def _rates(folder: str, parts: pd.Series, dataset: str) -> pd.Series:
    """Return the share of wrong labelled items by part."""
    items = load_items(folder, ["id"])
    of_items = parts.reindex(items["id"].to_numpy()).set_axis(items.index).rename("part")
    if of_items.isna().any():
        raise DataError(
            f"{folder}: predicts document {items.loc[of_items.isna(), 'id'].iloc[0]}, which the description of the "
            f"texts of {dataset} lacks. Make both from the same data."
        )
    return (items["label"] != items["prediction"]).groupby(of_items, observed=False).mean()
