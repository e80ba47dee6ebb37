"""What a study found, in short: per dataset the model that scores highest, and what its tests show."""

from typing import Literal

import numpy as np
import pandas as pd

from lib.results.comparisons import ComparisonSettings, compared, distinct
from lib.results.predictions import paired_predictions
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table


class Settings(ComparisonSettings, TableSettings):
    """One row per dataset: the models with the highest F1 on test, and which models are shown to be better or worse."""

    kind: Literal["answer"]


def make(settings: Settings, scope: Scope) -> Table:
    """Return for each dataset the highest F1 with its interval, and the comparisons of `significance` in words.

    Raises:
        DataError: see `compared`.
    """
    comparisons, grid = compared(settings, scope)
    rows = []
    for dataset in scope.stages[settings.stage]:
        pairs = comparisons[comparisons["dataset"] == dataset]
        if (here := grid[grid["dataset"] == dataset]).empty:
            continue  # the models are not made for the dataset
        paired = paired_predictions(here)
        mean = paired.f1().mean(axis=0)
        highest = int(mean.argmax())
        low, high = paired.score(highest).score_interval(settings.confidence)
        told_apart = pairs["holm_p"] <= 1 - settings.confidence
        rows.append(
            {
                "dataset": dataset,
                "highest": ", ".join(np.asarray(paired.models)[mean == mean[highest]]),
                "f1": 100 * mean[highest],
                "low": 100 * low,
                "high": 100 * high,
                "shown_better": _in_words(pairs, told_apart & (pairs["f1_difference"] > 0)),
                "shown_worse": _in_words(pairs, told_apart & (pairs["f1_difference"] < 0)),
                "not_told_apart": _in_words(pairs, ~told_apart),
            }
        )
    columns = {
        "f1": Column("F1 [%]", 2),
        "low": Column(f"{100 * settings.confidence:g} % interval from", 2),
        "high": Column("to", 2),
    }
    return Table(pd.DataFrame(rows), columns, _note(comparisons))


def _in_words(pairs: pd.DataFrame, chosen: pd.Series) -> str:
    """Return the models of the chosen pairs, by the model compared with; `all 9` for all of several."""
    found = []
    for against, group in pairs.groupby("against", sort=False):
        models = group.loc[chosen[group.index], "model"]
        if 1 < len(models) == len(group):
            found.append(f"all {len(models)} (than {against})")
        elif len(models):
            found.append(f"{', '.join(models)} (than {against})")
    return "; ".join(found) or "none"


def _note(compared: pd.DataFrame) -> str:
    one_seed = compared.loc[compared["seeds"] == 1, "dataset"].unique()
    everywhere = len(one_seed) == compared["dataset"].nunique()
    on = "" if everywhere else f" on {', '.join(one_seed)}"
    seeds = f"Trained with one seed{on}, so this holds for these trained models. " if len(one_seed) else ""
    return (
        f"Shown: by a paired test over the test documents{'' if everywhere else ' and seeds'}, after Holm's correction "
        f"for all {len(distinct(compared))} comparisons. {seeds}Models without a significant difference need not be "
        "equal: the table of kind `significance` has each difference with its interval."
    )
