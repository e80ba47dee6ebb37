"""Memory, time or weights in per cent of the reference: a row per model."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.settings import check
from lib.results.costs import COSTS, CostName, relative_cost
from lib.results.quantities import quantity
from lib.results.scope import Scope
from lib.results.settings import MODEL, TableSettings, Topic
from lib.results.table import Column, Key, Table


class RelativeTable(TableSettings):
    """One row per model but the reference: by how many per cent its cost differs, by stages and dataset."""

    about: ClassVar[Topic] = "cost"
    compares_with: ClassVar[tuple[Literal["reference"]]] = ("reference",)
    needs_another: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True

    kind: Literal["relative"]
    stage: list[str | list[str]] = Field(
        min_length=1,
        description="Stages, each on its own or several as one: `[pretrain, [tapt, finetune]]`. For several, times "
        "are added up and the largest memory counts. The table shows the models that pass all of them.",
    )
    column: CostName = Field(
        description="Compared quantity: `memory` (peak), `total_minutes` (of the training) or `parameters`."
    )

    @property
    def groups(self) -> list[list[str]]:
        """The stages that are taken together."""
        return [[group] if isinstance(group, str) else list(dict.fromkeys(group)) for group in self.stage]

    def stages_passed(self) -> list[str]:
        """See the base."""
        return list(dict.fromkeys(stage for group in self.groups for stage in group))

    @check
    def _groups_name_stages(self) -> Iterator[str]:
        if not all(self.groups):
            yield f"stage = {self.stage} has a group without a stage. Name one in it, or leave it out"
        first: dict[frozenset[str], list[str]] = {}
        for group in self.groups:
            if first.setdefault(frozenset(group), group) is not group:
                named = " + ".join(first[frozenset(group)])
                yield f"stage = {self.stage} names {named} twice. Name each group once"

    def key(self, stages: Sequence[str], dataset: str) -> Key:
        """Return the label of the column of stages that count together on a dataset."""
        return Key((*stages, dataset) if len(self.groups) > 1 else (dataset,))

    def make(self, scope: Scope) -> Table:
        """Return by how many per cent the cost of each model is above the reference's, for each group and dataset.

        A column has the names of the stages that count on its dataset, where there are several groups: those that work
        on it, and those that their runs start from.
        """
        models = [model for model in scope.models if model != scope.reference]
        label = quantity(self.column).label.partition(" [")[0]
        frame, printed = pd.DataFrame({MODEL: models}), {}
        for group in self.groups:
            percent = relative_cost(scope, self.column, group, models)
            for dataset, stages in _counted(group, scope.stages, scope.behind).items():
                key = self.key(stages, dataset)
                place = f"{' + '.join(stages)}/{dataset}" if len(self.groups) > 1 else dataset
                frame[key] = percent.loc[dataset].to_numpy()
                printed[key] = Column(f"{place} {label} against {scope.reference} [%]", 1, signed=True)
        gaps = frame[list(printed)].isna().any(axis=None)
        return Table(frame, printed, _note(self, scope, models) if gaps else None)


def _counted(
    group: Sequence[str], stages: Mapping[str, Sequence[str]], behind: Mapping[str, Mapping[str, Collection[str]]]
) -> dict[str, list[str]]:
    """Return by dataset the stages of a group whose costs count there.

    Args:
        group: names of stages.
        stages: the datasets of each.
        behind: by stage and dataset the stages that its runs start from.
    """
    datasets = dict.fromkeys(dataset for stage in group for dataset in stages[stage])
    counted = {}
    for dataset in datasets:
        working = [stage for stage in group if dataset in stages[stage]]
        before = {earlier for stage in working for earlier in behind.get(stage, {}).get(dataset, ())}
        counted[dataset] = [stage for stage in group if stage in working or stage in before]
    return counted


def _note(settings: RelativeTable, scope: Scope, models: Sequence[str]) -> str:
    """Return the note that explains dashes."""
    obstacle = COSTS[settings.column].obstacle
    reasons = [f"{obstacle} than that of {scope.reference}"] if obstacle else []
    if any(len(scope.made_for(stage, model)) < len(scope.stages[stage]) for stage in scope.stages for model in models):
        reasons.append("a dataset that the model is not made for")
    return f"A dash: {', or '.join(reasons)}."
