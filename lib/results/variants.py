"""Results of a search: validation scores of each variant, and the best one."""

from collections.abc import Collection, Iterable

import pandas as pd

from lib.core.errors import DataError
from lib.core.search_space import Setting, short_name, variant_name
from lib.results.predictions import without_copies
from lib.results.quantities import Quantity, quantity
from lib.results.records import SCORES
from lib.results.scope import Scope

CHOOSING = "validation_f1"
"""Score that chooses the settings of a search, as tables call it."""
EQUAL_DECIMALS = 9
"""Means that agree to so few decimals are equal; the order of additions changes the last digits."""


def variant_scores(scope: Scope, stage: str, score: Quantity) -> pd.DataFrame:
    """Return a score of every variant, as tables show it, in the order of datasets, rows and variants.

    Returns:
        `mean` and standard deviation `std` over the seeds (NaN with one seed), the greatest score `max` and the least
        `min`, the number of seeds `size`, and `best`, true
        for the highest mean of a row on a dataset, of a loss or an error for the lowest, and for the first of equal
        ones; by `dataset`, `row` and `variant`. NaN and false where a row has no runs on a dataset.

    Raises:
        DataError: a run is missing or duplicated, or lacks the score.
    """
    grid = scope.grid(stage, [score.source])
    if silent := sorted(set(grid.loc[grid[score.source].isna(), "row"])):
        called = SCORES.get(score.source, score.source)
        raise DataError(f"{stage}: {', '.join(silent)} has no {called}. Name models that have it, or another score.")
    names = [variant_name(settings) for settings in scope.variants.get(stage, [{}])]
    order = pd.MultiIndex.from_product([scope.stages[stage], scope.models, names], names=["dataset", "row", "variant"])
    cells = without_copies(grid).groupby(list(order.names))[score.source]
    found = (score.factor * cells.agg(["mean", "std", "max", "min"])).assign(size=cells.size()).reindex(order)
    ranked = found["mean"].dropna().round(EQUAL_DECIMALS).groupby(["dataset", "row"])
    best = ranked.idxmin() if score.smaller_is_better else ranked.idxmax()
    return found.assign(best=found.index.isin(best))


def best_settings(scope: Scope) -> dict[str, Setting]:
    """Return the settings of the best variant of the one stage, model and dataset of `scope`, by dotted name.

    Raises:
        DataError: a run is missing or duplicated, or has no macro-F1 on validation.
    """
    (stage,) = scope.stages
    best = variant_scores(scope, stage, quantity(CHOOSING))["best"]
    (settings,) = (each for each, chosen in zip(scope.variants[stage], best, strict=True) if chosen)
    return dict(settings)


def setting_columns(places: Iterable[str], others: Collection[str]) -> dict[str, str]:
    """Return the column names of searched settings, by dotted name.

    Args:
        places: dotted names of the settings.
        others: the other columns of the table. A setting whose short name is among them has its dotted name instead,
            which no other column can have: `recipe.epochs` next to the epochs of a trial.
    """
    short = {place: short_name(place) for place in places}
    return {place: place if name in others else name for place, name in short.items()}


def searched(scope: Scope, stage: str) -> dict[str, list[Setting]]:
    """Return the values that were tried of each setting, by its short name, in order."""
    names = list(scope.variants[stage][0])
    return {short_name(name): list(dict.fromkeys(each[name] for each in scope.variants[stage])) for name in names}
