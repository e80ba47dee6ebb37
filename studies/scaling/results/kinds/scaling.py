"""How the least held-out loss falls with the seconds of training, over all sizes of a mechanism."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import NonNegativeFloat, PositiveFloat, check
from lib.results.records import KEY
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, ResultSettings, TableSettings, Topic
from lib.results.style import MARKERS, PANEL_INCHES, STYLE, legend_beside, legend_entry, panel_grid
from lib.results.table import Column, Table

LEAST_POINTS = 3
"""Fewest points of a frontier that a power law is fitted to."""


class ScalingSettings(ResultSettings):
    """Settings that the table and the figure share."""

    about: ClassVar[Topic] = "cost"
    needs_training: ClassVar[bool] = True

    stage: str
    """Stage whose held-out loss is shown, trained at a constant rate."""
    curves: dict[str, list[str]] = Field(min_length=1)
    """Models of different sizes by the name of their curve, such as their mechanism."""
    after: NonNegativeFloat = 0.0
    """Seconds of training before which evaluations do not count, such as those of the warm-up."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals over seeds."""

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


def evaluations(settings: ScalingSettings, scope: Scope) -> pd.DataFrame:
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


NOTHING = pd.DataFrame({"seconds": [], "loss": []})
"""Frontier of a seed without an evaluation."""


class ScalingTable(ScalingSettings, TableSettings):
    """One row per dataset and curve: the exponent of its power law, and its loss for the same time as another's."""

    kind: Literal["scaling"]
    against: str
    """Curve that the others are compared with."""

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        for curve, models in self.curves.items():
            if curve != self.against:
                yield f"curves.{curve}", models, self.curves.get(self.against, ())

    @check
    def _against_is_a_curve(self) -> Iterator[str]:
        if self.against not in self.curves:
            yield f"against: there is no curve '{self.against}'. Name one of {', '.join(self.curves)}"

    def make(self, scope: Scope) -> Table:
        """Return for each dataset and curve: exponent with interval, and loss at the budget compared with `against`.

        Each seed has its own frontier, over all sizes, and its own fit; intervals are Student's over seeds, of
        differences paired by seed. The budget is the time that all curves and seeds have used on the dataset. Without
        an interval of the difference the result says why: there is one seed, or some seeds have no evaluation within
        the budget.

        Raises:
            DataError: see `evaluations`.
        """
        points = evaluations(self, scope)
        all_points = evaluations(self.model_copy(update={"after": 0.0}), scope)
        rows, without_law = [], []
        for dataset in [each for each in scope.stages[self.stage] if each in set(all_points["dataset"])]:
            here, ran = points[points["dataset"] == dataset], all_points[all_points["dataset"] == dataset]
            seconds = budget(here)
            curves = [curve for curve in self.curves if curve in set(ran["curve"])]
            frontiers = {curve: by_seed(here[here["curve"] == curve]) for curve in curves}
            losses = {
                curve: {
                    int(seed): loss_at(frontiers[curve].get(seed, NOTHING), seconds)
                    for seed in sorted(ran.loc[ran["curve"] == curve, "seed"].unique())
                }
                for curve in curves
            }
            reference = losses.get(self.against, {})
            for curve in curves:
                fits = {seed: power_law(frontiers[curve].get(seed, NOTHING)) for seed in losses[curve]}
                without_law += [f"seed {seed} of {curve} on {dataset}" for seed, law in fits.items() if law is None]
                laws = [law.exponent for law in fits.values() if law is not None]
                is_reference = curve == self.against
                differences = [loss - reference[seed] for seed, loss in losses[curve].items() if seed in reference]
                low, high = (float("nan"),) * 2 if is_reference else interval(differences, self.confidence)
                exponent_low, exponent_high = interval(laws, self.confidence)
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
                        "result": _result(low, high, curve, self.against, losses),
                    }
                )
        shown = f"{100 * self.confidence:g} % interval of the"
        columns = {
            "exponent": Column("exponent", 3),
            "exponent_low": Column(f"{shown} exponent from", 3),
            "exponent_high": Column("exponent to", 3),
            "seconds": Column("after [s]", 0),
            "loss": Column("loss [nats]", 3),
            "difference": Column(f"difference from {self.against}", 3, signed=True),
            "low": Column(f"{shown} difference from", 3, signed=True),
            "high": Column("difference to", 3, signed=True),
        }
        note = (
            "Exponent: of the power law through the least held-out loss that seconds of training buy, over all sizes "
            "of a curve. Loss: the least one within the time that all curves used on the dataset. Intervals: Student's "
            "over seeds, each with its own frontier, without correction for their number."
        )
        if without_law:
            note += f" Exponents leave out frontiers of fewer than {LEAST_POINTS} points: {', '.join(without_law)}."
        return Table(pd.DataFrame(rows), columns, note)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _result(low: float, high: float, curve: str, against: str, losses: Mapping[str, Mapping[int, float]]) -> str:
    """Return the verdict on a difference by its interval, or why there is none.

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


class ScalingFigure(ScalingSettings, FigureSettings):
    """Held-out loss against seconds of training, one curve per mechanism over its sizes, one panel per dataset."""

    kind: Literal["scaling"]
    beyond: PositiveFloat = Field(10.0, ge=1)
    """Factor up to which the power law is drawn beyond the last evaluation, dashed; 1 = not at all."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw every evaluation as a point, and the mean of the seeds' power laws as a line, both axes logarithmic.

        The line is dashed where no training has been: there it is an extrapolation. A seed with too few evaluations for
        a power law adds points only.

        Raises:
            DataError: see `evaluations`.
        """
        points = evaluations(self, scope)
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in set(points["dataset"])]
        styles = {
            curve: {"color": f"C{place}", "marker": MARKERS[place % len(MARKERS)]}
            for place, curve in enumerate(self.curves)
        }
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            axes.set(xscale="log", yscale="log", xlabel="training time [s]", ylabel="held-out loss [nats]")
            # Losses span less than a decade, where a logarithmic axis would name no value.
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(ScalarFormatter())
            here = points[points["dataset"] == dataset]
            for curve, style in styles.items():
                _draw_curve(axes, here[here["curve"] == curve], curve, style, self.beyond)
        handles = [legend_entry(curve, linewidth=1.4, **style) for curve, style in styles.items()]
        if any(line.is_dashed() for axes in panels for line in axes.lines):
            handles.append(legend_entry("extrapolated", linestyle="--", color="0.4"))
        legend_beside(figure, handles, [str(handle.get_label()) for handle in handles])
        return figure


def _draw_curve(axes: Axes, points: pd.DataFrame, curve: str, style: dict[str, Any], beyond: float) -> None:
    axes.plot(
        points["seconds"], points["loss"], linestyle="", markersize=2.5, alpha=0.35, gid=f"{curve} evaluations", **style
    )
    laws = [law for found in by_seed(points).values() if (law := power_law(found)) is not None]
    if not laws:
        return
    first, last = points["seconds"].min(), points["seconds"].max()
    ends_of = {"-": (first, last)} | ({"--": (last, last * beyond)} if beyond > 1 else {})
    for line, ends in ends_of.items():
        seconds = np.geomspace(*ends, 50)
        mean = np.exp(np.mean([np.log(law.loss(seconds)) for law in laws], axis=0))
        axes.plot(seconds, mean, linestyle=line, color=style["color"], linewidth=1.4, gid=f"{curve} {line}")
