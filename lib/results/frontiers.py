"""The least loss that training seconds buy: over all sizes of a mechanism, with a power law through it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import NonNegativeFloat, check
from lib.results.records import KEY
from lib.results.scope import Scope
from lib.results.settings import ResultSettings

LEAST_POINTS = 3
"""Fewest points of a frontier through which a power law is fitted."""


class FrontierSettings(ResultSettings):
    """Base of the settings of what shows frontiers."""

    stage: str = Field(description="Stage whose held-out loss is shown, trained at a constant rate.")
    curves: dict[str, list[str]] = Field(
        min_length=1, description="Models of different sizes by the name of their curve, such as their mechanism."
    )
    after: NonNegativeFloat = Field(
        0.0,
        description="Seconds of training before which evaluations do not count, such as those of the warm-up.",
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Confidence of the intervals over seeds.")

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Show the models of the curves."""
        curves = values.get("curves") if isinstance(values, dict) else None
        if not isinstance(curves, dict) or values.get("models") is not None:
            return values
        names = (
            name for names in curves.values() if isinstance(names, list) for name in names if isinstance(name, str)
        )
        return values | {"models": list(dict.fromkeys(names))}

    @check
    def _a_model_is_of_one_curve(self) -> Iterator[str]:
        names = [name for models in self.curves.values() for name in models]
        if twice := sorted(name for name, count in Counter(names).items() if count > 1):
            yield f"curves: {', '.join(twice)} is of several curves. Name each model once"
        if missing := sorted(set(names) - {*(self.models or ())}):
            yield f"models: lacks {', '.join(missing)} of the curves. Leave `models` out"


class PowerLaw(NamedTuple):
    """loss = factor * seconds ** -exponent."""

    factor: float
    exponent: float

    def loss(self, seconds: np.ndarray) -> np.ndarray:
        """Return the loss after `seconds` of training."""
        return self.factor * seconds**-self.exponent


def evaluations(settings: FrontierSettings, scope: Scope) -> pd.DataFrame:
    """Return every evaluation of the models of the curves: `dataset`, `curve`, `row`, `seed`, `seconds` and `loss`.

    Seconds are those of training alone, from its beginning.

    Raises:
        DataError: a run is missing, or its history lacks the held-out loss.
    """
    rows = dict.fromkeys((curve, scope.row(model)) for curve, models in settings.curves.items() for model in models)
    of_curves = pd.DataFrame(list(rows), columns=["curve", "row"])
    grid = scope.grid(settings.stage, models=list(of_curves["row"].unique()))
    found = grid[["row", *KEY]].merge(scope.histories, on=KEY).sort_values("epoch").merge(of_curves, on="row")
    if "eval_loss" not in found or found["eval_loss"].isna().any():
        raise DataError(f"{settings.stage}: a history has no `eval_loss` of some evaluation. Repeat the runs.")
    found["seconds"] = found.groupby(["dataset", "curve", "row", "seed"])["seconds"].cumsum()
    found["loss"] = found["eval_loss"]
    return found[found["seconds"] >= settings.after][["dataset", "curve", "row", "seed", "seconds", "loss"]]


def frontier(points: pd.DataFrame) -> pd.DataFrame:
    """Return of evaluations of one seed those that are better than all that took no longer, in the order of seconds."""
    ordered = points.sort_values(["seconds", "loss"])
    before = ordered["loss"].cummin().shift(fill_value=np.inf)
    return ordered[ordered["loss"] < before]


def power_law(points: pd.DataFrame) -> PowerLaw | None:
    """Return the power law through a frontier, by least squares of the logarithms; None through too few points.

    It has no loss that no computation removes, so it holds within the points, and beyond them as a guess.
    """
    if len(points) < LEAST_POINTS:
        return None
    from scipy.stats import linregress

    line = linregress(np.log(points["seconds"]), np.log(points["loss"]))
    return PowerLaw(float(np.exp(line.intercept)), float(-line.slope))


def loss_at(points: pd.DataFrame, seconds: float) -> float:
    """Return the lowest loss of evaluations within `seconds`; NaN if there is none."""
    return float(points.loc[points["seconds"] <= seconds, "loss"].min())


def budget(points: pd.DataFrame) -> float:
    """Return the seconds that every curve and seed has used on a dataset: the least of their last evaluations."""
    return float(points.groupby(["curve", "seed"])["seconds"].max().min())


def interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return Student's interval of a mean over seeds; NaN with one seed."""
    if len(values) < 2:
        return float("nan"), float("nan")
    from scipy.special import stdtrit

    reach = stdtrit(len(values) - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / len(values) ** 0.5
    return float(np.mean(values) - reach), float(np.mean(values) + reach)


def by_seed(points: pd.DataFrame) -> Mapping[int, pd.DataFrame]:
    """Return the frontier of each seed of one curve on one dataset."""
    return {int(seed): frontier(group) for seed, group in points.groupby("seed")}
