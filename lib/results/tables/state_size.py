"""Scores and how much of a text models keep, each with the variant that validation chose."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import spelled, variant_name
from lib.results.quantities import STATE
from lib.results.scope import Scope
from lib.results.settings import TableSettings
from lib.results.table import Column, Table
from lib.results.variants import of_best_variants, searched, setting_columns

NOTE = "State size: what a model keeps of a text of the greatest length, over all layers and heads, in float32. "


class Settings(TableSettings):
    """One row per dataset and model: its state size, what validation chose among the variants, and its scores."""

    takes_variants: ClassVar[Literal["any"]] = "any"

    kind: Literal["state_size"]
    stage: str = Field(description="Stage whose runs it shows.")
    column: str = Field("accuracy", description="The score, as in the columns of `stage` tables.")
    by: str = Field(
        "validation_accuracy",
        description="The score on validation whose highest mean over the seeds chooses a row's variant, if the stage "
        "has variants.",
    )

    @property
    def needs_state(self) -> bool:
        """See the base."""
        return True


def make(settings: Settings, scope: Scope) -> Table:
    """Return one row per dataset and model, with the state size, the chosen settings and both scores.

    Scores are means over the seeds, with a standard deviation when there is more than one seed.
    """
    stage = settings.stage
    score, by = (scope.quantity(column, stage) for column in (settings.column, settings.by))
    scope.grid(stage, [score.source])
    runs = of_best_variants(scope, stage, by)
    cells = runs.groupby(["dataset", "row"])
    places = [
        (dataset, row) for dataset in scope.stages[stage] for row in scope.models if (dataset, row) in cells.groups
    ]
    index = pd.MultiIndex.from_tuples(places, names=["dataset", "row"])
    frame = pd.DataFrame({"dataset": [dataset for dataset, _ in places], "model": [row for _, row in places]})
    if len(scope.stages[stage]) == 1:
        frame = frame.drop(columns="dataset")
    frame["state_kib"] = cells[STATE].first().reindex(index).to_numpy() / 1024
    note = NOTE
    if stage in scope.variants:
        variants = {variant_name(each): each for each in scope.variants[stage]}
        chosen = cells["variant"].first().reindex(index)
        scores = [name for each in (by, score) for name in (each.name, f"{each.name}_sd")]
        called = setting_columns(scope.variants[stage][0], ["dataset", "model", "state_kib", *scores])
        for place, name in called.items():
            frame[name] = [spelled(variants[each][place]) for each in chosen]
        tried = "; ".join(
            f"{name} {', '.join(map(spelled, values))}" for name, values in searched(scope, stage).items()
        )
        note += f"Each row has the best of {tried} by {by.label.partition(' [')[0]}, mean over the seeds."
    columns = {"state_kib": Column("state size [KiB]", 2)}
    for each in (by, score):
        frame[each.name] = each.factor * cells[each.source].mean().reindex(index).to_numpy()
        columns[each.name] = Column(each.label, each.decimals)
        if cells.size().max() > 1:
            frame[f"{each.name}_sd"] = each.factor * cells[each.source].std().reindex(index).to_numpy()
    return Table(frame, columns, note.strip())
