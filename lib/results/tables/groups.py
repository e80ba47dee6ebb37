"""Accuracy by group of documents, such as their distance or length: a row per model."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.kinds import TableParameters
from lib.results.groups import accuracy_by_group
from lib.results.scope import Scope
from lib.results.table import Column, Table


class Parameters(TableParameters):
    """One table per dataset: a row per model, its accuracy on test by the dataset's `group`."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    kind: Literal["groups"]
    stage: str = Field(description="Stage whose runs it shows.")
    label: str | None = Field(
        None, description="What the number is, such as `distance`; null = the name of its column."
    )

    def stages_passed(self) -> list[str]:
        """See the base."""
        return [self.stage]


def make(settings: Parameters, scope: Scope) -> Table:
    """Return accuracy on test in percent: one row per model, one column per group of documents, ascending.

    With more than one seed these are means, with a standard deviation beside them. Columns are called by what the
    groups are called: `distance` gives `distance_16`, `distance_32`.

    Raises:
        DataError: a run is missing or there twice, or has no predictions by group.
    """
    (dataset,) = scope.stages[settings.stage]
    group = settings.label or scope.groups[dataset]
    scores = accuracy_by_group(scope.grid(settings.stage))
    frame, columns = pd.DataFrame({"model": scope.models}), {}
    for number, each in scores.loc[dataset].groupby("group"):
        name = f"{group}_{number}"
        of_models = each.droplevel("group").reindex(scope.models)
        frame[name] = of_models["mean"].to_numpy()
        columns[name] = Column(f"{group} {number} [%]", 2)
        if scores["std"].notna().any():
            frame[f"{name}_sd"] = of_models["std"].to_numpy()
    return Table(frame, columns)
