"""How the least held-out loss falls with the seconds of training, and which curve is lower for the same seconds."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.settings import check
from lib.results.frontiers import (
    LEAST_POINTS,
    FrontierSettings,
    budget,
    by_seed,
    evaluations,
    interval,
    loss_at,
    power_law,
)
from lib.results.scope import Scope
from lib.results.settings import TableSettings, Topic
from lib.results.table import Column, Table

NOTHING = pd.DataFrame({"seconds": [], "loss": []})
"""Frontier of a seed without an evaluation."""


class Settings(FrontierSettings, TableSettings):
    """One row per dataset and curve: the exponent of its power law, and its loss for the same time as another's."""

    about: ClassVar[Topic] = "cost"
    needs_training: ClassVar[bool] = True

    kind: Literal["scaling"]
    against: str = Field(description="Curve that the others are compared with.")

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        for curve, models in self.curves.items():
            if curve != self.against:
                yield f"curves.{curve}", models, self.curves.get(self.against, ())

    @check
    def _against_is_a_curve(self) -> Iterator[str]:
        if self.against not in self.curves:
            yield f"against: there is no curve '{self.against}'. Name one of {', '.join(self.curves)}"


def make(settings: Settings, scope: Scope) -> Table:
    """Return for each dataset and curve: exponent with interval, and loss at the budget compared with `against`.

    Each seed has its own frontier, over all sizes, and its own fit; intervals are Student's over seeds, of differences
    paired by seed. The budget is the time that all curves and seeds have used on the dataset. Without an interval of
    the difference the result says why: there is one seed, or some seeds have no evaluation within the budget.

    Raises:
        DataError: see `evaluations`.
    """
    points = evaluations(settings, scope)
    all_points = evaluations(settings.model_copy(update={"after": 0.0}), scope)
    rows, without_law = [], []
    for dataset in [each for each in scope.stages[settings.stage] if each in set(all_points["dataset"])]:
        here, ran = points[points["dataset"] == dataset], all_points[all_points["dataset"] == dataset]
        seconds = budget(here)
        curves = [curve for curve in settings.curves if curve in set(ran["curve"])]
        frontiers = {curve: by_seed(here[here["curve"] == curve]) for curve in curves}
        losses = {
            curve: {
                int(seed): loss_at(frontiers[curve].get(seed, NOTHING), seconds)
                for seed in sorted(ran.loc[ran["curve"] == curve, "seed"].unique())
            }
            for curve in curves
        }
        reference = losses.get(settings.against, {})
        for curve in curves:
            fits = {seed: power_law(frontiers[curve].get(seed, NOTHING)) for seed in losses[curve]}
            without_law += [f"seed {seed} of {curve} on {dataset}" for seed, law in fits.items() if law is None]
            laws = [law.exponent for law in fits.values() if law is not None]
            is_reference = curve == settings.against
            differences = [loss - reference[seed] for seed, loss in losses[curve].items() if seed in reference]
            low, high = (float("nan"),) * 2 if is_reference else interval(differences, settings.confidence)
            exponent_low, exponent_high = interval(laws, settings.confidence)
            rows.append(
                {
                    "dataset": dataset,
                    "curve": curve,
                    "exponent": _mean(laws),
                    "exponent_low": exponent_low,
                    "exponent_high": exponent_high,
                    "seconds": seconds,
                    "loss": _mean([*losses[curve].values()]),
                    "difference": float("nan") if is_reference else _mean(differences),
                    "low": low,
                    "high": high,
                    "result": _result(low, high, curve, settings.against, losses),
                }
            )
    shown = f"{100 * settings.confidence:g} % interval of the"
    columns = {
        "exponent": Column("exponent", 3),
        "exponent_low": Column(f"{shown} exponent from", 3),
        "exponent_high": Column("exponent to", 3),
        "seconds": Column("after [s]", 0),
        "loss": Column("loss [nats]", 3),
        "difference": Column(f"difference from {settings.against}", 3, signed=True),
        "low": Column(f"{shown} difference from", 3, signed=True),
        "high": Column("difference to", 3, signed=True),
    }
    note = (
        "Exponent: of the power law through the least held-out loss that seconds of training buy, over all sizes of a "
        "curve. Loss: the least one within the time that all curves used on the dataset. Intervals: Student's over "
        "seeds, each with its own frontier, without correction for their number."
    )
    if without_law:
        note += f" Exponents leave out frontiers of fewer than {LEAST_POINTS} points: {', '.join(without_law)}."
    return Table(pd.DataFrame(rows), columns, note)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _result(low: float, high: float, curve: str, against: str, losses: Mapping[str, Mapping[int, float]]) -> str:
    """Return what the interval of a difference shows, or why there is none.

    Args:
        low: end of the interval; NaN without one.
        high: other end.
        curve: whose result it is.
        against: the curve that it is compared with.
        losses: of every curve of the dataset, by seed; NaN without an evaluation within the budget.
    """
    if against not in losses:
        return f"no run of {against}"
    late = {
        name: [seed for seed, loss in losses[name].items() if np.isnan(loss)]
        for name in dict.fromkeys([curve, against])
    }
    if any(late.values()):
        named = [
            f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} of {name}"
            for name, seeds in late.items()
            if seeds
        ]
        return f"no evaluation in this time: {'; '.join(named)}"
    if curve == against:
        return "-"
    if np.isnan(low):
        return "one seed"
    return "lower" if high < 0 else "higher" if low > 0 else "no difference shown"
