"""Whether models whose attention changed more also score better: a row per measure of attention's geometry."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import WholeNumber
from lib.results.geometry_values import OF_WEIGHTS, at_ends, geometry_values
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

TOGETHER = "symmetry + directionality"
FEWEST = 4
"""Pairs that an interval of a correlation needs."""


class Settings(TableSettings):
    """Correlation of differences in F1 with differences in symmetry and directionality, over pairs of models."""

    about: ClassVar[Topic] = "differences"
    needs_training: ClassVar[bool] = True
    needs_geometry: ClassVar[bool] = True

    kind: Literal["correlation"]
    stage: str = Field(description="Stage whose F1 on test and last measured geometry are compared.")
    base: dict[str, str] = Field(
        min_length=FEWEST,
        description="By model the one that it is compared with, such as the causal one of its family.",
    )
    position: WholeNumber = Field(0, description="Position of keys from queries.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the intervals.")

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        yield from ((f"base.{model}", [model], [other]) for model, other in self.base.items())

    def columns_shown(self, stage: str) -> list[str]:
        """See the base: F1."""
        return ["f1"]


def make(settings: Settings, scope: Scope) -> Table:
    """Return how differences in F1 correlate with those in symmetry, in directionality, and in their sum.

    Differences are of a model minus its base, of means over seeds, and of geometry over layers of the merged weights at
    the last measurement. Pearson's correlation has its interval by Fisher's transformation; Spearman's needs no
    straight line.

    Raises:
        DataError: a run is missing or measured nothing, or a measure does not vary.

    Source:
        Hypothesis 3 of the study of decoders: the difference in F1 is proportional to (symmetry after - before) -
        (directionality before - after), which is the sum of both differences. Fisher (1915), Frequency Distribution of
        the Values of the Correlation Coefficient.
    """
    from scipy.stats import pearsonr, spearmanr

    pairs = list(dict.fromkeys((scope.row(model), scope.row(base)) for model, base in settings.base.items()))
    f1 = scope.quantity("f1", settings.stage)
    grid = scope.grid(settings.stage, [f1.source])
    measured = {"f1": f1.factor * grid.astype({f1.source: float}).groupby(["dataset", "row"])[f1.source].mean()}
    for measure in OF_WEIGHTS:
        values = geometry_values(
            scope, [settings.stage], measure, weights="merged", positions=[settings.position], per="layer"
        )
        measured[measure] = at_ends(values)[1]["mean"]
    rows = []
    for dataset in scope.stages[settings.stage]:
        of_models = pd.DataFrame({name: values[dataset] for name, values in measured.items()})
        differences = pd.DataFrame(
            [of_models.loc[model] - of_models.loc[base] for model, base in _distinct(pairs, scope, settings, dataset)]
        )
        differences[TOGETHER] = differences[list(OF_WEIGHTS)].sum(axis=1, skipna=False)
        for name in (*OF_WEIGHTS, TOGETHER):
            found = differences[["f1", name]].dropna()
            if len(found) < FEWEST or found.nunique().min() == 1:
                raise DataError(
                    f"{dataset}: {name} of {len(found)} pairs has no correlation with F1. Expected at least {FEWEST} "
                    "pairs that differ. Name more in `base`, or leave the table out."
                )
            pearson, spearman = pearsonr(found["f1"], found[name]), spearmanr(found["f1"], found[name])
            low, high = pearson.confidence_interval(settings.confidence)
            rows.append(
                {
                    "dataset": dataset,
                    "difference in": name,
                    "pairs": len(found),
                    "pearson": pearson.statistic,
                    "low": low,
                    "high": high,
                    "pearson_p": pearson.pvalue,
                    "spearman": spearman.statistic,
                    "spearman_p": spearman.pvalue,
                }
            )
    columns = {
        "pairs": Column("pairs", 0),
        "pearson": Column("Pearson r with F1", 2, signed=True),
        "low": Column(f"{100 * settings.confidence:g} % interval from", 2, signed=True),
        "high": Column("to", 2, signed=True),
        "pearson_p": Column("p", 4),
        "spearman": Column("Spearman r", 2, signed=True),
        "spearman_p": Column("Spearman p", 4),
    }
    named = ", ".join(f"{model} - {base}" for model, base in pairs)
    note = (
        f"Differences of means over seeds: {named}. Pairs with the same base are no independent observations, so "
        "intervals and p are too small rather than too large."
    )
    return Table(pd.DataFrame(rows), columns, note)


def _distinct(
    pairs: Sequence[tuple[str, str]], scope: Scope, settings: Settings, dataset: str
) -> list[tuple[str, str]]:
    """Return the pairs of different runs on a dataset, each pair of runs once."""
    of_runs: dict[tuple[str | None, ...], tuple[str, str]] = {}
    for model, base in pairs:
        runs = scope.owner(settings.stage, model, dataset), scope.owner(settings.stage, base, dataset)
        if None not in runs and runs[0] != runs[1]:
            of_runs.setdefault(runs, (model, base))
    return list(of_runs.values())
