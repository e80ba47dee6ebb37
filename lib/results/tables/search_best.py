"""The settings that a search found best: a row per dataset."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import spelled, variant_name
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table
from lib.results.variants import setting_columns, variant_scores

NOTE = (
    "Lead: mean of the best minus that of the second. One that is no larger than the standard deviation over seeds, or "
    "that only one seed shows, may as well be chance."
)


class Settings(TableSettings):
    """One row per dataset: the best variant of a stage, its score on validation, and its lead over the second."""

    about: ClassVar[Topic] = "training"
    takes_variants: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["search_best"]
    stage: str = Field(description="Stage with `variants`.")
    column: str = Field("validation_f1", description="The score, as in the columns of tables; the highest is the best.")


def make(settings: Settings, scope: Scope) -> Table:
    """Return one row per dataset, and model if there are several: the best settings, their score, lead and seeds.

    With more than one seed the score is a mean with a standard deviation. The lead is missing where there is
    one variant only.
    """
    score, stage = scope.quantity(settings.column, settings.stage), settings.stage
    variants = {variant_name(variant): variant for variant in scope.variants[stage]}
    seeds = scope.grid(stage).groupby("dataset")["seed"].nunique()
    others = ("dataset", "model", score.name, f"{score.name}_sd", "lead", "seeds")
    names = setting_columns(scope.variants[stage][0], others)
    rows = []
    for (dataset, model), found in variant_scores(scope, stage, score).groupby(["dataset", "row"], sort=False):
        if not found["best"].any():
            continue  # the model is not made for the dataset
        (best,) = found[found["best"]].itertuples()
        chosen = {names[place]: spelled(value) for place, value in variants[best.Index[-1]].items()}
        lead = best.mean - found.loc[~found["best"], "mean"].max()
        scores = {score.name: best.mean, f"{score.name}_sd": best.std, "lead": lead, "seeds": seeds[dataset]}
        rows.append({"dataset": dataset, "model": model, **chosen, **scores})
    frame = pd.DataFrame(rows)
    one_model, one_seed = len(scope.models) == 1, bool(frame[f"{score.name}_sd"].isna().all())
    columns = {
        score.name: Column(score.label, score.decimals),
        "lead": Column("lead [points]" if score.factor == 100 else "lead", score.decimals),
        "seeds": Column("seeds", 0),
    }
    return Table(frame.drop(columns=["model"] * one_model + [f"{score.name}_sd"] * one_seed), columns, NOTE)
