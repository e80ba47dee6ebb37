"""Memory, time or weights in per cent of the reference: a row per model."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.sections import check
from lib.results.costs import COSTS, CostName, relative_cost
from lib.results.parameters import TableParameters, Topic
from lib.results.quantities import quantity
from lib.results.scope import Scope
from lib.results.table import Column, Table


class Parameters(TableParameters):
    """One row per model but the reference: by how many per cent its cost differs, by stages and dataset."""

    about: ClassVar[Topic] = "cost"
    beside: ClassVar[tuple[Literal["reference"]]] = ("reference",)

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
        return [[group] if isinstance(group, str) else group for group in self.stage]

    def stages_passed(self) -> list[str]:
        """See the base."""
        return list(dict.fromkeys(stage for group in self.groups for stage in group))

    @check
    def _groups_name_stages(self) -> Iterator[str]:
        if not all(self.groups):
            yield f"stage = {self.stage} has a group without a stage. Name one in it, or leave it out"


def make(settings: Parameters, scope: Scope) -> Table:
    """Return by how many per cent the cost of each model is above the reference's, for each group and dataset.

    A column bears the names of the stages that work on its dataset, where there are several groups.
    """
    models = [model for model in scope.models if model != scope.reference]
    label = quantity(settings.column).label.partition(" [")[0]
    frame, printed = pd.DataFrame({"model": models}), {}
    for group in settings.groups:
        percent = relative_cost(scope, settings.column, group, models)
        for dataset in dict.fromkeys(dataset for stage in group for dataset in scope.stages[stage]):
            stages = [stage for stage in group if dataset in scope.stages[stage]]
            several = len(settings.groups) > 1
            name = "_".join([*stages, dataset] if several else [dataset])
            place = f"{' + '.join(stages)}/{dataset}" if several else dataset
            frame[name] = percent.loc[dataset].to_numpy()
            printed[name] = Column(f"{place} {label} against {scope.reference} [%]", 1, signed=True)
    gaps = frame[list(printed)].isna().any(axis=None)
    return Table(frame, printed, _note(settings, scope, models) if gaps else None)


def _note(settings: Parameters, scope: Scope, models: Sequence[str]) -> str:
    """Return what a dash stands for."""
    obstacle = COSTS[settings.column].obstacle
    reasons = [f"{obstacle} than that of {scope.reference}"] if obstacle else []
    if any(len(scope.made_for(stage, model)) < len(scope.stages[stage]) for stage in scope.stages for model in models):
        reasons.append("a dataset that the model is not made for")
    return f"A dash: {', or '.join(reasons)}."
