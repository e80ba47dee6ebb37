"""Accuracy by group of documents, such as their distance or length, for each model."""

from collections.abc import Hashable, Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.results.predictions import accuracy_by_group
from lib.results.scope import Scope
from lib.results.settings import MODEL, ColumnNames, TableSettings
from lib.results.table import Column, Key, Table


class Settings(TableSettings):
    """One table per dataset: accuracy on test by model and the dataset's `group`."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    kind: Literal["groups"]
    stage: str = Field(description="Stage whose runs it shows.")
    label: str | None = Field(
        None, description="Name of the number, such as `distance`; null = the name of its column."
    )
    rows: Literal["models", "groups"] = Field(
        "models", description="What the rows are; the others are columns. Groups with long names suit rows."
    )

    def columns_made(self, names: ColumnNames) -> Iterator[Hashable]:
        """See the base."""
        if self.rows == "groups":
            yield self.label or names.groups[0]
            for row in names.rows:
                yield from (Key((row,)), Key((row,)).sd)


def make(settings: Settings, scope: Scope) -> Table:
    """Return accuracy on test in percent: one row per model, one column per group of documents, ascending, or turned.

    With more than one seed these are means with a standard deviation. Groups are called by what their
    number is, `distance_16`, `distance_32`, unless they have names.
    """
    (dataset,) = scope.stages[settings.stage]
    group, names = settings.label or scope.groups[dataset], scope.group_names.get(dataset)
    scores = accuracy_by_group(scope.grid(settings.stage)).loc[dataset]
    means, deviations = (scores[column].unstack("group").loc[[*scope.models]] for column in ("mean", "std"))
    if names:
        means, deviations = (each.rename(columns=names.__getitem__) for each in (means, deviations))
    first, before = MODEL, "" if names else f"{group} "
    if settings.rows == "groups":
        means, deviations, first, before = means.T, deviations.T, group, ""
    frame, columns = pd.DataFrame({first: [str(name) for name in means.index]}), {}
    for number in means:
        key = Key((f"{before}{number}".replace(" ", "_"),))
        frame[key] = means[number].to_numpy()
        columns[key] = Column(f"{before}{number} [%]", 2)
        if scores["std"].notna().any():
            frame[key.sd] = deviations[number].to_numpy()
    return Table(frame, columns)
