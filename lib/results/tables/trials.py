"""The trials of a tuning: a row per trial."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import short_name
from lib.results.parameters import TableParameters, Topic
from lib.results.scope import Scope
from lib.results.table import Column, Table
from lib.results.trials import load_trials

NOTE = (
    "Bold: the best trial, whose settings are chosen. The score of a pruned trial, which was ended early, is that of "
    "its last evaluation; one that diverged has none. Time is that of training loops."
)


class Parameters(TableParameters):
    """One row per trial of a stage with `tuning`: settings, score on validation, how it ended; the best one bold."""

    about: ClassVar[Topic] = "training"
    takes_tuning: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["trials"]
    stage: str = Field(description="Stage with `tuning`.")


def make(settings: Parameters, scope: Scope) -> Table:
    """Return one row per trial, with dataset and model where there are several."""
    searches = load_trials(scope, settings.stage)
    score = searches[0].score
    rows = pd.concat([each.frame.assign(dataset=each.dataset, model=each.row) for each in searches], ignore_index=True)
    shown = pd.DataFrame({name: rows[name] for name in ("dataset", "model") if rows[name].nunique() > 1})
    shown["trial"] = rows["number"]
    for place, dimension in searches[0].space.items():
        shown[short_name(place)] = rows[place] if dimension.values else [f"{value:.4g}" for value in rows[place]]
    shown[score.name] = rows["score"]
    shown[["state", "epochs"]] = rows[["state", "epochs"]]
    shown["minutes"] = rows["seconds"] / 60
    columns = {
        "trial": Column("trial", 0),
        score.name: Column(score.label, score.decimals),
        "epochs": Column("epochs", 0 if (rows["epochs"] % 1 == 0).all() else 2),
        "minutes": Column("time [min]", 2),
    }
    return Table(shown, columns, NOTE, {score.name: rows["best"].tolist()})
