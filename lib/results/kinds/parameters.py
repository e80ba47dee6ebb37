"""How many weights each model has, and where: a row per model."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

PARTS = {
    "embeddings": "embeddings",
    "attention": "attention",
    "feed_forward": "feed-forward",
    "recurrence": "recurrence",
    "norms": "norms",
    "other": "other",
    "backbone": "backbone in all",
    "head": "head",
    "total": "all",
    "trainable": "trained",
}
"""Parts of a model as run records count them, and what their columns are called."""


class ParametersTable(TableSettings):
    """One table per dataset: a row per model, its weights by part."""

    about: ClassVar[Topic] = "cost"
    divided: ClassVar[Literal["if_several"]] = "if_several"

    kind: Literal["parameters"]
    stage: str = Field(description="Stage whose models are counted, with the head of its task.")

    def make(self, scope: Scope) -> Table:
        """Return the number of weights of each model by part and in all, frozen ones included; `trained` with adapters.

        A part that no model has makes no column, and one that a model does not have, or its record does not count, is
        left empty. The seed changes no number.
        """
        sources = {part: f"parameters_{part}" for part in PARTS}
        grid = scope.grid(self.stage, [sources["total"]]).reindex(columns=["row", *sources.values()])
        counts = grid.groupby("row").first().reindex(scope.models)
        frame, printed = pd.DataFrame({"model": scope.models}), {}
        for part, label in PARTS.items():
            if counts[sources[part]].notna().any():
                frame[part], printed[part] = counts[sources[part]].to_numpy(), Column(label, 0)
        return Table(frame, printed)
