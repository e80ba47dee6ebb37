"""Scores less those of the reference and of the baseline: a row per model."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.sections import check
from lib.results.parameters import TableParameters, Topic
from lib.results.quantities import quantity
from lib.results.scope import Scope
from lib.results.table import Column, Table


class Parameters(TableParameters):
    """One row per model: its score, and that less the reference's and the baseline's, by dataset."""

    about: ClassVar[Topic] = "differences"
    beside: ClassVar[tuple[Literal["reference"], Literal["baseline"]]] = ("reference", "baseline")

    kind: Literal["difference"]
    stage: str = Field(description="Stage whose runs it shows.")
    columns: list[str] = Field(["f1"], min_length=1, description="The scores, as in the columns of tables.")

    @check
    def _columns_are_scores(self) -> Iterator[str]:
        for column in self.columns:
            if not quantity(column).score:
                yield f"columns: '{column}' is no score. Use a table of kind 'relative' to compare costs"


def make(settings: Parameters, scope: Scope) -> Table:
    """Return one row per model: for each dataset the scores asked for, and the differences.

    With more than one seed these are means; a difference is taken between runs of the same seed, so that its standard
    deviation is that of paired runs. A model's difference from itself is left empty.
    """
    quantities = [scope.quantity(column, settings.stage) for column in settings.columns]
    others = [model for model in (scope.reference, scope.baseline) if model and model in scope.owners[settings.stage]]
    rows = list(dict.fromkeys([*scope.models, *others]))
    grid = scope.grid(settings.stage, [each.source for each in quantities], rows)
    several_seeds = grid["seed"].nunique() > 1
    frame, printed = pd.DataFrame({"model": scope.models}), {}
    for dataset in scope.stages[settings.stage]:
        of_dataset = grid[grid["dataset"] == dataset].set_index(["row", "seed"])
        for each in quantities:
            scores = each.factor * of_dataset[each.source].astype(float).unstack("seed")
            name = dataset if len(quantities) == 1 else f"{dataset}_{each.name}"
            shown = {name: (scores, Column(f"{dataset} {each.label}", each.decimals))}
            for other in [model for model in others if model in scores.index]:
                label = f"{dataset} {each.difference_label(f'against {other}')}"
                difference = scores.drop(index=other) - scores.loc[other]
                shown[f"{name}_against_{other}"] = (difference, Column(label, each.decimals, signed=True))
            for column, (values, form) in shown.items():
                frame[column] = values.mean(axis=1).reindex(scope.models).to_numpy()
                printed[column] = form
                if several_seeds:
                    frame[f"{column}_sd"] = values.std(axis=1).reindex(scope.models).to_numpy()
    return Table(frame, printed)
