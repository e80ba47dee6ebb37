"""What a search tried, and how it scored on validation: a row per variant."""

from collections.abc import Hashable, Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import short_name
from lib.results.scope import Scope
from lib.results.settings import MODEL, ColumnNames, TableSettings, Topic
from lib.results.table import Column, Key, Table
from lib.results.variants import variant_scores

NOTE = "Bold: the best of each dataset, by which settings are chosen."


class Settings(TableSettings):
    """One row per variant of a stage, its score on validation by dataset, the best one bold."""

    about: ClassVar[Topic] = "training"
    takes_variants: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["search"]
    stage: str = Field(description="Stage with `variants`.")
    column: str = Field("validation_f1", description="The score, as in the columns of tables; the highest is the best.")

    def columns_made(self, names: ColumnNames) -> Iterator[Hashable]:
        """See the base."""
        yield from (MODEL, *names.searched)
        for dataset in names.stages[self.stage]:
            yield from (Key((dataset,)), Key((dataset,)).sd)


def make(settings: Settings, scope: Scope) -> Table:
    """Return one row per variant, and model if there are several: its settings, and its score on each dataset.

    With more than one seed these are means with a standard deviation.
    """
    score = scope.quantity(settings.column, settings.stage)
    scores = variant_scores(scope, settings.stage, score)
    rows = [
        {MODEL: model, **{short_name(name): value for name, value in variant.items()}}
        for model in scope.models
        for variant in scope.variants[settings.stage]
    ]
    frame, columns, bold = pd.DataFrame(rows, dtype=object), {}, {}
    if len(scope.models) == 1:
        frame = frame.drop(columns=MODEL)
    for dataset in scope.stages[settings.stage]:
        found = scores.loc[dataset]
        key = Key((dataset,))
        frame[key], bold[key] = found["mean"].to_numpy(), found["best"].tolist()
        columns[key] = Column(f"{dataset} {score.label}", score.decimals)
        if found["std"].notna().any():
            frame[key.sd] = found["std"].to_numpy()
    return Table(frame, columns, NOTE, bold)
