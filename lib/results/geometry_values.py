"""What runs measured of attention's geometry, for the table and the figure of kind `geometry`: settings and values."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import WholeNumber
from lib.results.records import KEY
from lib.results.scope import Scope
from lib.results.settings import ResultSettings

Measure = Literal["symmetry", "directionality", "upper_triangle", "gradient_norm"]
Weights = Literal["merged", "delta", "adapter"]
Per = Literal["layer", "head"]

OF_WEIGHTS = ("symmetry", "directionality")
"""Measures of weights and positions; the others are of the model as it computes."""
LABELS = {
    "symmetry": "symmetry",
    "directionality": "directionality",
    "upper_triangle": "attention to later tokens\n(share of squared weights)",
    "gradient_norm": "gradient norm",
}
WHOLE_LAYER = "all"
"""Value of `head` in rows of whole layers."""
CELL = ["dataset", "row", "step"]


class GeometrySettings(ResultSettings):
    """Settings that the table and the figure share."""

    needs_training: ClassVar[bool] = True
    needs_geometry: ClassVar[bool] = True

    stage: str | list[str] = Field(
        description="Stage whose training is shown; it needs a section `geometry`. Of several, each model shows the "
        "one that it passes."
    )
    positions: list[WholeNumber] = Field(
        [0], min_length=1, description="Positions of keys from queries, as measured; the mean over several."
    )
    per: Per = Field(
        "layer", description="What means and deviations are over: whole layers, or all heads of all layers."
    )

    def stages_passed(self) -> list[str]:
        """See the base."""
        return [self.stage] if isinstance(self.stage, str) else []

    def stages_added(self) -> list[str]:
        """See the base."""
        return [] if isinstance(self.stage, str) else self.stage


def geometry_values(
    scope: Scope,
    stages: Sequence[str],
    measure: str,
    *,
    weights: Weights,
    positions: Sequence[int],
    per: Per = "layer",
    source: Literal["model", "random"] = "model",
) -> pd.Series:
    """Return a measure by `dataset`, `row`, `step`, `layer` and `head`, as a mean over seeds and positions.

    What is not defined, such as the symmetry of an update that is still zero, is left out, and so are models without
    such weights.

    Args:
        scope: of the table or figure.
        stages: names of the stages.
        measure: column of the tables of geometry.
        weights: which weights; `merged` where the measure is none of weights.
        positions: tokens from query to key.
        per: whole layers, or each head.
        source: models, or random projections of the same shapes.

    Raises:
        DataError: runs are missing or duplicated, did not measure at these positions, or a model has runs of several
            of the stages on one dataset.
    """
    grid = pd.concat(scope.grid(stage) for stage in stages)
    passed = grid.groupby(["row", "dataset"])["stage"].unique()
    if several := [
        f"{row} passes {' and '.join(found)} on {dataset}" for (row, dataset), found in passed.items() if len(found) > 1
    ]:
        raise DataError(
            f"stage = {list(stages)}: {'; '.join(several)}. Expected one stage per model and dataset, since steps of "
            "two trainings are not those of one. Name one stage, or other models."
        )
    rows = grid[["row", *KEY]].merge(scope.geometries, on=KEY)
    rows = rows[
        (rows["source"] == source) & (rows["weights"] == weights) & ((rows["head"] == WHOLE_LAYER) == (per == "layer"))
    ]
    if measure in (*OF_WEIGHTS, "bound"):
        if missing := sorted(set(positions) - set(rows["position"])) if len(rows) else []:
            known = ", ".join(map(str, sorted(rows["position"].unique())))
            raise DataError(
                f"positions: {', '.join(map(str, missing))} were not measured at {', '.join(stages)}. Known: {known}. "
                "Name some of these, or add them to `geometry.positions` of the stage."
            )
        rows = rows[rows["position"].isin(positions)]
    return rows.dropna(subset=[measure]).groupby([*CELL, "layer", "head"])[measure].mean()


def over_layers(values: pd.Series) -> pd.DataFrame:
    """Return `mean` and `std` over layers, or heads, by `dataset`, `row` and `step`."""
    return values.groupby(CELL).agg(["mean", "std"])


def at_ends(values: pd.Series) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `mean` and `std` over layers by `dataset` and `row`, at the first step with values and at the last."""
    curves = over_layers(values).reset_index("step").groupby(CELL[:2])
    return curves.first()[["mean", "std"]], curves.last()[["mean", "std"]]
