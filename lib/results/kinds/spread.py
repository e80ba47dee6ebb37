"""How far a score of one model lies apart over the seeds: a row per model."""

from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.search_space import spelled, variant_name
from lib.results.predictions import without_copies
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table
from lib.results.variants import setting_columns


class SpreadTable(TableSettings):
    """One table per dataset: a row per model, or model and variant, the greatest and the least score over the seeds."""

    about: ClassVar[Topic] = "differences"
    divided: ClassVar[Literal["if_several"]] = "if_several"
    takes_variants: ClassVar[Literal["any"]] = "any"

    kind: Literal["spread"]
    stage: str = Field(description="Stage whose runs it shows.")
    column: str = Field("f1", description="The score, as in the columns of tables.")

    def make(self, scope: Scope) -> Table:
        """Return the greatest and the least score over the seeds, their difference, and how many seeds, of each model.

        Of a stage with variants, these are rows of their own, each with its settings.

        With a single seed the difference is left empty. Copies of one evaluation count as one.
        """
        score = scope.quantity(self.column, self.stage)
        grid = without_copies(scope.grid(self.stage, [score.source]))
        variants = scope.variants.get(self.stage, [{}])
        rows = pd.MultiIndex.from_product([scope.models, map(variant_name, variants)])
        cells = grid.astype({score.source: float}).groupby(["row", "variant"])[score.source]
        scores = cells.agg(["max", "min", "size"]).reindex(rows)
        maximum, minimum = score.factor * scores["max"], score.factor * scores["min"]
        values = {
            "maximum": maximum,
            "minimum": minimum,
            "difference": (maximum - minimum).where(scores["size"] > 1),
            "seeds": scores["size"],
        }
        columns = {
            "maximum": Column(f"greatest {score.label}", score.decimals),
            "minimum": Column(f"least {score.label}", score.decimals),
            "difference": Column(score.difference_label("difference"), score.decimals),
            "seeds": Column("seeds", 0),
        }
        called = setting_columns(variants[0], ["model", *values])
        names = [
            {"model": model, **{called[place]: spelled(value) for place, value in variant.items()}}
            for model in scope.models
            for variant in variants
        ]
        return Table(pd.DataFrame(names).assign(**{name: each.to_numpy() for name, each in values.items()}), columns)
