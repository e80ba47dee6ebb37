"""How far a score of one model lies apart over the seeds: a row per model."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.kinds import TableParameters
from lib.results.quantities import quantity
from lib.results.scope import Scope
from lib.results.table import Column, Table


class Parameters(TableParameters):
    """One table per dataset: a row per model, the greatest and the least score over the seeds."""

    divided: ClassVar[Literal["if_several"]] = "if_several"

    kind: Literal["spread"]
    stage: str = Field(description="Stage whose runs it shows.")
    column: str = Field("f1", description="The score, as in the columns of tables.")

    def stages_passed(self) -> list[str]:
        """See the base."""
        return [self.stage]


def make(settings: Parameters, scope: Scope) -> Table:
    """Return the greatest and the least score of each model over the seeds, their difference, and how many seeds.

    With a single seed the difference is left empty.

    Raises:
        DataError: a run is missing, incomplete or there twice.
    """
    score = quantity(settings.column)
    grid = scope.grid(settings.stage, [score.source])
    scores = grid[score.source].astype(float).groupby(grid["row"]).agg(["max", "min", "count"]).reindex(scope.models)
    maximum, minimum = score.factor * scores["max"], score.factor * scores["min"]
    values = {
        "maximum": maximum,
        "minimum": minimum,
        "difference": (maximum - minimum).where(scores["count"] > 1),
        "seeds": scores["count"],
    }
    columns = {
        "maximum": Column(f"greatest {score.label}", score.decimals),
        "minimum": Column(f"least {score.label}", score.decimals),
        "difference": Column(score.difference_label("difference"), score.decimals),
        "seeds": Column("seeds", 0),
    }
    return Table(
        pd.DataFrame({"model": scope.models} | {name: each.to_numpy() for name, each in values.items()}), columns
    )
