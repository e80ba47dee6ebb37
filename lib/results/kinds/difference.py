"""Scores less those of the reference and of the baseline: a row per model."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import check
from lib.results.predictions import repetitions
from lib.results.quantities import Quantity, quantity
from lib.results.scope import Scope
from lib.results.settings import MODEL, TableSettings, Topic
from lib.results.table import Column, Key, Table


class DifferenceTable(TableSettings):
    """One row per model: its score, and that less the reference's and the baseline's, by dataset."""

    about: ClassVar[Topic] = "differences"
    compares_with: ClassVar[tuple[Literal["reference"], Literal["baseline"]]] = ("reference", "baseline")

    kind: Literal["difference"]
    stage: str = Field(description="Stage whose runs it shows.")
    columns: list[str] = Field(["f1"], min_length=1, description="The scores, as in the columns of tables.")

    @check
    def _columns_are_scores(self) -> Iterator[str]:
        for column in self.columns:
            if not quantity(column).score:
                yield f"columns: '{column}' is no score. Use a table of kind 'relative' to compare costs"

    def key(self, dataset: str, shown: Quantity) -> Key:
        """Return the label of the column of a score on a dataset."""
        return Key((dataset,) if len(self.columns) == 1 else (dataset, shown.name))

    def make(self, scope: Scope) -> Table:
        """Return one row per model: for each dataset the scores asked for, and the differences.

        With more than one seed these are means; a difference is taken between runs of the same seed, so that its
        standard deviation is that of paired runs. The difference of two rows with the same runs is left empty.
        """
        others = [model for model in (scope.reference, scope.baseline) if model and model in scope.owners[self.stage]]
        rows = list(dict.fromkeys([*scope.models, *others]))
        grid = scope.grid(self.stage, [quantity(column).source for column in self.columns], rows)
        several = (repetitions(grid) > 1).any()
        frame, printed = pd.DataFrame({MODEL: scope.models}), {}
        for dataset in scope.stages[self.stage]:
            of_dataset = grid[grid["dataset"] == dataset].set_index(["row", "seed"])
            runs = of_dataset["original"].unstack("seed")
            owners = {row: scope.owner(self.stage, row, dataset) for row in rows}
            for each in [scope.quantity(column, self.stage, dataset) for column in self.columns]:
                scores = each.factor * of_dataset[each.source].astype(float).unstack("seed")
                mean = self.key(dataset, each)
                shown = {mean: (scores, runs, Column(f"{dataset} {each.label}", each.decimals))}
                for other in [model for model in others if model in scores.index]:
                    label = f"{dataset} {each.difference_label(f'against {other}')}"
                    same = [row for row in scores.index if owners[row] == owners[other]]
                    difference = scores.drop(index=same) - scores.loc[other]
                    form = Column(label, each.decimals, signed=True)
                    shown[against(mean, other)] = (difference, runs + runs.loc[other], form)
                for key, (values, made, form) in shown.items():
                    once = values.mask(made.apply(pd.Series.duplicated, axis=1)).reindex(scope.models)
                    frame[key], printed[key] = once.mean(axis=1).to_numpy(), form
                    if several:
                        frame[key.sd] = once.std(axis=1).to_numpy()
        return Table(frame, printed)


def against(key: Key, other: str) -> Key:
    """Return the label of the column of a score's difference from that of another model."""
    return Key((*key.parts, "against", other))
