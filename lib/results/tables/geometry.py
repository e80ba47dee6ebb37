"""The geometry of attention before and after a training: a row per model and kind of weights."""

import itertools
from typing import Any, ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.results.geometry_values import OF_WEIGHTS, GeometrySettings, Weights, at_ends, geometry_values
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

COLUMNS = {
    "symmetry_first": "symmetry first",
    "symmetry_last": "symmetry last",
    "symmetry_random": "symmetry random",
    "largest_move": "largest move possible",
    "directionality_first": "directionality first",
    "directionality_last": "directionality last",
    "directionality_random": "directionality random",
    "later_first": "later tokens first",
    "later_last": "later tokens last",
}
"""What the columns are called; those that no row has a value in are left out."""


class Settings(GeometrySettings, TableSettings):
    """A row per model, dataset and kind of weights: first and last symmetry and directionality."""

    about: ClassVar[Topic] = "training"

    kind: Literal["geometry"]
    weights: list[Weights] = Field(
        ["merged", "delta"],
        min_length=1,
        description="The model's weights (`merged`), their change by LoRA (`delta`), the product of LoRA's own "
        "matrices (`adapter`); a model without LoRA has only `merged`.",
    )


def make(settings: Settings, scope: Scope) -> Table:
    """Return symmetry and directionality at the first and the last measurement, as means over layers and seeds.

    Standard deviations are over the layers. They are compared with random projections of the same shapes, by how
    much at most a model's update could have moved the symmetry of its merged weights, and in the rows of merged weights
    the share of squared attention weights on later tokens. An update is zero at first, so that its first value is that
    of the first measurement after it.

    Raises:
        DataError: a run is missing, duplicated or without its table of geometry, or nothing was measured of what is
            asked for.
    """
    parts = {weights: _columns(settings, scope, weights) for weights in settings.weights}
    values = pd.concat(parts, names=["weights"])
    datasets = dict.fromkeys(dataset for of_stage in scope.stages.values() for dataset in of_stage)
    places = itertools.product(scope.models, datasets, settings.weights)
    rows = [place for place in places if (place[2], place[1], place[0]) in values.index]
    if not rows:
        raise DataError(
            f"no run of {', '.join(scope.stages)} has measured weights {', '.join(settings.weights)}. Expected some: "
            "`delta` and `adapter` need LoRA on queries or keys. Change the table's settings."
        )
    values = values.loc[[place[::-1] for place in rows]].dropna(axis="columns", how="all")
    frame = pd.DataFrame(rows, columns=["model", "dataset", "weights"])
    if frame["dataset"].nunique() == 1:
        frame = frame.drop(columns="dataset")
    for name, part in values.columns:
        frame[name if part == "mean" else f"{name}_sd"] = values[name, part].to_numpy()
    return Table(frame, {name: Column(label, 3) for name, label in COLUMNS.items() if name in frame})


def _columns(settings: Settings, scope: Scope, weights: Weights) -> pd.DataFrame:
    """Return `mean` and `std` of every one of `COLUMNS` by `dataset` and `row`, NaN where a model has no value."""
    chosen: dict[str, Any] = {"positions": settings.positions, "per": settings.per}
    found: dict[str, pd.DataFrame] = {}
    for measure in OF_WEIGHTS:
        first, last = at_ends(geometry_values(scope, list(scope.stages), measure, weights=weights, **chosen))
        random = geometry_values(scope, list(scope.stages), measure, weights=weights, source="random", **chosen)
        found |= {f"{measure}_first": first, f"{measure}_last": last, f"{measure}_random": at_ends(random)[0]}
    if weights == "merged":
        bounds = geometry_values(scope, list(scope.stages), "bound", weights="delta", **chosen)
        found["largest_move"] = at_ends(bounds)[1][["mean"]]
        shares = at_ends(geometry_values(scope, list(scope.stages), "upper_triangle", weights="merged", **chosen))
        found |= dict(zip(("later_first", "later_last"), shares, strict=True))
    together = pd.concat(found, axis="columns")
    return together.reindex(columns=[(name, part) for name in COLUMNS for part in ("mean", "std")])
