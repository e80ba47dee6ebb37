"""The loss, or another number of the history, at each evaluation: a row per evaluation, a column per model."""

from collections.abc import Hashable, Iterator
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.results.records import KEY
from lib.results.scope import Scope
from lib.results.settings import ColumnNames, TableSettings, Topic
from lib.results.table import Column, Key, Table

EPOCH = "epoch"


class Settings(TableSettings):
    """One table per dataset: a row per evaluation, a column per model that trains."""

    about: ClassVar[Topic] = "training"
    divided: ClassVar[Literal["if_several"]] = "if_several"

    kind: Literal["history"]
    stage: str = Field(description="Stage whose runs it shows.")
    column: str = Field("train_loss", description="Column of the history, such as `train_loss` or `eval_f1_macro`.")

    def columns_made(self, names: ColumnNames) -> Iterator[Hashable]:
        """See the base."""
        yield EPOCH
        for row in names.rows:
            yield from (Key((row,)), Key((row,)).sd)


def make(settings: Settings, scope: Scope) -> Table:
    """Return a column of the history by epoch and model, unscaled.

    With more than one seed these are means with a standard deviation. An epoch at which a model was not
    evaluated, or has no value of, is a gap.

    Raises:
        DataError: a run is missing or duplicated, or no history has the column.
    """
    grid = scope.grid(settings.stage)
    epochs = grid[["row", *KEY]].merge(scope.histories, on=KEY)
    if settings.column not in epochs or epochs[settings.column].isna().all():
        known = ", ".join(epochs.columns[epochs.notna().any()].drop(["row", *KEY]))
        raise DataError(
            f"the history of {settings.stage} has no value of '{settings.column}'. Known: {known or 'none'}. Name one "
            "of these in the table's setting `column`."
        )
    cells = epochs.groupby(["epoch", "row"])[settings.column]
    means, deviations = cells.mean().unstack("row"), cells.std().unstack("row")
    decimals = 0 if (means.index % 1 == 0).all() else 2
    frame = pd.DataFrame({EPOCH: means.index})
    columns: dict[Hashable, Column] = {EPOCH: Column("epoch", decimals)}
    label = settings.column.replace("_", " ")
    for model in [model for model in scope.models if model in means]:
        key = Key((model,))
        frame[key], columns[key] = means[model].to_numpy(), Column(f"{model} {label}", 4)
        if deviations[model].notna().any():
            frame[key.sd] = deviations[model].to_numpy()
    return Table(frame, columns)
