"""What models cost: in per cent of the reference, and which are worth it (the Pareto front)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.results.quantities import quantity
from lib.results.scope import How, Scope
from lib.results.variants import EQUAL_DECIMALS


class Cost(NamedTuple):
    """How a quantity of several stages becomes one, and when two models can be compared by it."""

    how: How
    like: str | None
    """Column of the runs that must be the same; None = any two can be compared."""


COSTS = {
    "memory": Cost("max", "peak_memory_kind"),
    "total_minutes": Cost("sum", "machine"),
    "parameters": Cost("max", None),
}
"""Quantities that are compared in per cent."""
CONFIDENCE = 0.95
"""Confidence of the interval between repeated runs, unless a table sets it."""


def relative_cost(
    scope: Scope, column: str, stages: Sequence[str], models: Sequence[str], of: str, other: str | None = None
) -> pd.DataFrame:
    """Return by how many per cent the costs of models are above another's; below it, they are negative.

    Means over the seeds are compared. Of several stages, times add up and the greatest memory counts.

    Args:
        scope: of a table that compares models.
        column: what is compared, of `COSTS`.
        stages: names of the stages.
        models: rows.
        of: stage whose runs are priced.
        other: the model that others are compared with; None = the reference.

    Returns:
        Per cent by `dataset`, one column per model; NaN where there is no training to be timed, or the model's runs and
        the other's cannot be compared: times on other hardware, memory of another kind.

    Raises:
        DataError: a run is missing, incomplete or duplicated.
    """
    other = other or scope.reference
    assert other is not None  # the study was checked
    cost, key = COSTS[column], ["dataset", "row"]
    rows = list(dict.fromkeys([*models, other]))
    source = quantity(column).source
    costs = scope.totals(source, stages, rows, cost.how, of).groupby(key).mean().unstack("row")
    percent = 100 * (costs.div(costs[other], axis=0) - 1)
    if cost.like is not None:
        ways = measured(scope.trainings(source, stages, rows, of), cost.like).unstack("row")
        percent = percent.where(ways.eq(ways[other], axis=0))
    return percent.reindex(columns=list(models))


def measured(runs: pd.DataFrame, like: str) -> pd.Series:
    """Return how the costs of each row were measured: in the same way, or each run in its own.

    Two rows that were both measured in the ways A and B can be compared only if the same runs were in A. Otherwise, the
    difference of their sums and means is partly that of A and B.

    Args:
        runs: as `Scope.trainings` gives them.
        like: column that says how a run was measured.

    Returns:
        Text by `dataset` and `row`; rows with the same text can be compared.
    """
    way, cells = runs[like], [runs["dataset"], runs["row"]]
    of_run = runs["stage"] + "/" + runs["seed"].astype(str) + ": " + way
    mixed = way.groupby(cells).transform("nunique") > 1
    return way.mask(mixed, of_run).groupby(cells).agg(lambda each: "; ".join(sorted(set(each))))


def dominance(costs: pd.DataFrame, tolerances: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return whether each row is dominated by each column; the front is the rows without any.

    A model dominates another if it costs no more in any respect, and less in one. Equal ones do not dominate each
    other, nor do those whose means differ by rounding alone.

    Args:
        costs: one row per model, one column per respect, smaller being better.
        tolerances: by column, the factor above 1 up to which costs count as equal; 1 = none, as where it is
            not named.
    """
    shape = len(costs), len(costs)
    no_more, less = np.ones(shape, bool), np.zeros(shape, bool)
    for name, values in costs.round(EQUAL_DECIMALS).items():
        theirs, ours = np.meshgrid(values.to_numpy(float), values.to_numpy(float))
        factor = (tolerances or {}).get(str(name), 1.0)
        no_more &= theirs <= ours * factor
        less |= theirs * factor < ours
    return pd.DataFrame(no_more & less, index=costs.index, columns=costs.index)


def front(costs: pd.DataFrame, tolerances: Mapping[str, float] | None = None) -> list:
    """Return the rows of `costs`, as `dominance` takes them, that no other dominates."""
    return costs.index[~dominance(costs, tolerances).any(axis=1)].tolist()


def tolerance(costs: pd.Series, own: float | None, confidence: float) -> float | None:
    """Return the factor up to which costs of two models count as equal; None = they do not decide.

    It is the factor that their means may differ by, through chance: the deviation of log costs is pooled over the
    models; the factor is the half-width of the t interval of a difference of two means.

    Args:
        costs: of the runs of one stage on one dataset, each once, by `row`: earlier stages may be shared by the seeds.
        own: what the settings allow where no model has two runs, in per cent.
        confidence: of the interval of a difference between repeated runs.
    """
    from scipy.special import stdtrit

    logs = np.log(costs.dropna().astype(float)).groupby("row")
    degrees, fewest = int((logs.size() - 1).sum()), logs.size().min()
    if degrees == 0:
        return None if own is None else 1 + own / 100
    deviation = np.sqrt((logs.var(ddof=1) * (logs.size() - 1)).sum() / degrees)
    return float(np.exp(stdtrit(degrees, (1 + confidence) / 2) * deviation * np.sqrt(2 / fewest)))
