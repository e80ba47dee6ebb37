"""How the least held-out loss falls with the seconds of training, and which curve is lower for the same seconds."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.sections import check
from lib.results.frontiers import FrontierParameters, budget, by_seed, evaluations, interval, loss_at, power_law
from lib.results.parameters import TableParameters, Topic
from lib.results.scope import Scope
from lib.results.table import Column, Table


class Parameters(FrontierParameters, TableParameters):
    """One row per dataset and curve: the exponent of its power law, and its loss for the same time as another's."""

    about: ClassVar[Topic] = "cost"
    needs_training: ClassVar[bool] = True

    kind: Literal["scaling"]
    against: str = Field(description="Curve that the others are set beside.")

    @check
    def _against_is_a_curve(self) -> Iterator[str]:
        if self.against not in self.curves:
            yield f"against: there is no curve '{self.against}'. Name one of {', '.join(self.curves)}"


def make(settings: Parameters, scope: Scope) -> Table:
    """Return for each dataset and curve: exponent with its interval, and the loss at the budget beside `against`.

    Each seed has its own frontier, over all sizes, and its own fit; intervals are Student's over seeds, of differences
    paired by seed. The budget is the time that all curves and seeds have used on the dataset.

    Raises:
        DataError: see `evaluations`.
    """
    points = evaluations(settings, scope)
    rows = []
    for dataset in scope.stages[settings.stage]:
        here = points[points["dataset"] == dataset]
        seconds = budget(here)
        frontiers = {curve: by_seed(here[here["curve"] == curve]) for curve in settings.curves}
        reference = {seed: loss_at(found, seconds) for seed, found in frontiers[settings.against].items()}
        for curve, seeds in frontiers.items():
            laws = [law.exponent for found in seeds.values() if (law := power_law(found)) is not None]
            losses = {seed: loss_at(found, seconds) for seed, found in seeds.items()}
            differences = [losses[seed] - reference[seed] for seed in losses if seed in reference]
            low, high = interval(differences, settings.confidence)
            exponent_low, exponent_high = interval(laws, settings.confidence)
            is_reference = curve == settings.against
            rows.append(
                {
                    "dataset": dataset,
                    "curve": curve,
                    "exponent": np.mean(laws) if laws else float("nan"),
                    "exponent_low": exponent_low,
                    "exponent_high": exponent_high,
                    "seconds": seconds,
                    "loss": np.mean(list(losses.values())),
                    "difference": float("nan") if is_reference else np.mean(differences),
                    "low": float("nan") if is_reference else low,
                    "high": float("nan") if is_reference else high,
                    "result": "-" if is_reference else _result(low, high),
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
    return Table(pd.DataFrame(rows), columns, note)


def _result(low: float, high: float) -> str:
    if np.isnan(low):
        return "one seed"
    return "lower" if high < 0 else "higher" if low > 0 else "no difference shown"
