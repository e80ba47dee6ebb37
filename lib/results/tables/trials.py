"""The trials of a tuning: a row per trial."""

from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import Dimension
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table
from lib.results.trials import load_trials
from lib.results.variants import setting_columns

OTHERS = ("dataset", "model", "trial", "state", "epochs", "minutes")
"""Columns that are neither settings nor scores."""
NOTE = (
    "Bold: the best trial, whose settings are chosen. The score of a pruned trial, which was ended early, is that of "
    "its last evaluation; one that diverged has none. Time is that of training loops."
)


class Settings(TableSettings):
    """One row per trial of a stage with `tuning`: settings, score on validation, how it ended; the best one bold."""

    about: ClassVar[Topic] = "training"
    takes_tuning: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["trials"]
    stage: str = Field(description="Stage with `tuning`.")


def make(settings: Settings, scope: Scope) -> Table:
    """Return one row per trial, with dataset and model where there are several.

    Tasks may choose by different scores: each has a column, which is empty in rows of the others.
    """
    searches = load_trials(scope, settings.stage)
    scores = {each.score.name: each.score for each in searches}
    named = [each.frame.assign(dataset=each.dataset, model=each.row, by=each.score.name) for each in searches]
    rows = pd.concat(named, ignore_index=True)
    shown = pd.DataFrame({name: rows[name] for name in ("dataset", "model") if rows[name].nunique() > 1})
    shown["trial"] = rows["number"]
    space = searches[0].space
    for place, name in setting_columns(space, [*OTHERS, *scores]).items():
        shown[name] = [_printed(value, space[place]) for value in rows[place]]
    for name in scores:
        shown[name] = rows["score"].where(rows["by"] == name)
    shown[["state", "epochs"]] = rows[["state", "epochs"]]
    shown["minutes"] = rows["seconds"] / 60
    columns = {
        "trial": Column("trial", 0),
        **{name: Column(score.label, score.decimals) for name, score in scores.items()},
        "epochs": Column("epochs", 0 if (rows["epochs"] % 1 == 0).all() else 2),
        "minutes": Column("time [min]", 2),
    }
    bold = {name: (rows["best"] & (rows["by"] == name)).tolist() for name in scores}
    return Table(shown, columns, NOTE, bold)


def _printed(value: Any, dimension: Dimension) -> str:
    """Return a setting as text: listed ones and whole numbers as they are, other numbers with 4 significant digits."""
    if dimension.values:
        return value
    return f"{value:.0f}" if dimension.whole else f"{value:.4g}"
