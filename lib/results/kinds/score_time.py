"""A score against the training time that it cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import PositiveFloat
from lib.results.costs import CONFIDENCE, front, measured, tolerance, without_time
from lib.results.predictions import without_copies
from lib.results.quantities import Quantity, time_unit
from lib.results.scope import Scope
from lib.results.settings import FigureSettings
from lib.results.style import BASELINE_COLOUR, PANEL_INCHES, STYLE, colours_and_markers, draw_with_bars, show_names

LABELS = {
    "textsize": 7,
    "va": "center",  # else names are drawn lower than they were placed, by the depth of their letters
    "linewidth": 0.5,
    "margin": 0.002,
    "min_distance": 0.007,
    "max_distance": 0.4,
    "nbr_candidates": 2000,
}
"""How textalloc places names; distances are shares of a panel."""
RING = 3.0
"""Difference in size, in points, between markers at the same place."""


class ScoreTimeFigure(FigureSettings):
    """A score against the time of training, with the Pareto front of both, one panel per dataset."""

    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)
    leaves_out_baseline: ClassVar[bool] = True
    adds_costs: ClassVar[bool] = True

    kind: Literal["score_time"]
    stage: str = Field(description="Stage whose score is drawn.")
    column: str = Field("f1", description="The score, as in the columns of tables.")
    time: list[str] = Field(min_length=1, description="Stages whose training times are added up.")
    time_tolerance: PositiveFloat | None = Field(
        None,
        description="As in the table of kind `pareto`: times that differ by less, in per cent, count as equal in the "
        "Pareto front; null = every difference counts, where models have one run each.",
    )

    def notes(self, scope: Scope) -> Iterator[str]:
        """See the base: they name the datasets whose panels have no front."""
        if apart := self._on_different_hardware(scope):
            names = ", ".join(map(scope.title, apart))
            yield f"Trainings on {names} ran on different hardware: no Pareto front is drawn there."

    def _on_different_hardware(self, scope: Scope) -> list[str]:
        used = scope.trainings("training_seconds", self.time, scope.trained, self.stage)
        machines = measured(used[used["training_seconds"].notna()], "machine").groupby("dataset").nunique()
        return [dataset for dataset in scope.stages[self.stage] if machines.get(dataset, 1) > 1]

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw a score against the time of training that a dataset cost, one panel per dataset.

        Times are means over the seeds; a bar spans one standard deviation of the score to either side where there is
        more than one seed. The baseline is a dashed line where it has the score. A stepped line joins the Pareto front:
        no other model has at least as good a score in at most as much time and is better in one. As in the table of
        kind `pareto`, times that differ by no more than those of repeated runs count as equal, and where trainings ran
        on different hardware there is no front. Other models without a
        training loop have no time and are left out. Markers are open, and those of models at the same place lie around
        each other, so that none hides another. Times are seconds if all are below a minute.
        """
        score = scope.quantity(self.column, self.stage)
        baseline = scope.baseline
        drawn = [*scope.trained, *([baseline] if baseline else [])]
        grid = scope.grid(self.stage, [score.source], drawn)
        seconds = scope.totals("training_seconds", self.time, scope.trained, of=self.stage)
        minutes = seconds.groupby(["dataset", "row"]).mean() / 60
        cells = without_copies(grid).groupby(["dataset", "row"])[score.source]
        scores = score.factor * cells.agg(["mean", "std"]).fillna({"std": 0})
        styles = colours_and_markers({row: scope.families[row] for row in scope.trained})
        unit, per_minute = time_unit(minutes.max())
        points = scores.assign(time=per_minute * minutes)  # of the baseline there are none
        shown = points[points["time"].notna()].index.unique("dataset")
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in shown]
        if not datasets:
            raise DataError(without_time(self.stage, scope.models, self.time))
        size = PANEL_INCHES[0] * len(datasets), PANEL_INCHES[1]
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            axes.set_xlabel(f"training time, {' + '.join(self.time)} [{unit}]")
            here = points.loc[dataset]
            if _has_score(here, baseline):
                axes.axhline(here.loc[baseline, "mean"], color=BASELINE_COLOUR, linestyle="--", linewidth=1)
            _draw_models(axes, here["time"], here, _made(styles, here))
            axes.margins(x=0.22, y=0.15)
        labels = [_label_of(scope.quantity(self.column, self.stage, dataset)) for dataset in datasets]
        for axes, label in zip(panels, labels, strict=True):
            if axes is panels[0] or len(set(labels)) > 1:
                axes.set_ylabel(label)
        show_names(figure)
        figure.draw_without_rendering()  # lays the panels out, which names are placed in
        figure.set_layout_engine("none")
        apart = self._on_different_hardware(scope)
        for axes, dataset in zip(panels, datasets, strict=True):
            here = points.loc[dataset]
            made, drawn_baseline = _made(styles, here), baseline if _has_score(here, baseline) else None
            _enlarge_what_coincides(axes, list(made))
            runs = grid[(grid["dataset"] == dataset) & grid["row"].isin(made)].drop_duplicates("folder")
            seconds_here = runs.set_index("row")["training_seconds"]
            factor = tolerance(seconds_here, self.time_tolerance, CONFIDENCE) or 1.0
            fronts = []
            if dataset not in apart:
                fronts.append(_draw_front(axes, here["time"], here["mean"], list(made), score, factor))
            _label(axes, here["time"], here, made, drawn_baseline, fronts)
        return figure


def _has_score(points: pd.DataFrame, baseline: str | None) -> bool:
    """Whether the baseline has runs on a dataset, and these the score."""
    return baseline in points.index and pd.notna(points.loc[baseline, "mean"])


def _label_of(score: Quantity) -> str:
    """Return the label of the axis of a score, which says if it is of test documents."""
    of_test = score.source.startswith("test_") and not score.label.startswith("test ")
    return f"test {score.label}" if of_test else score.label


def _made(styles: Mapping[str, tuple[str, str]], points: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the styles of the models that have a score and a time."""
    there = points.index[points["time"].notna()]
    return {model: style for model, style in styles.items() if model in there}


def _draw_models(axes: Axes, times: pd.Series, scores: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    for model, (colour, marker) in styles.items():
        mean, deviation = scores.loc[model, ["mean", "std"]]
        style: dict[str, Any] = {"color": colour, "marker": marker, "markerfacecolor": "none"}
        draw_with_bars(axes, times[model], mean, model, yerr=deviation or None, **style)


def _points(axes: Axes, models: Sequence[str]) -> list[Line2D]:
    """Return the markers of the models."""
    of_model = {line.get_gid(): line for line in axes.lines}
    return [of_model[model] for model in models]


def _enlarge_what_coincides(axes: Axes, models: Sequence[str]) -> None:
    """Make each marker larger for every earlier one whose centre it covers."""
    places: list[np.ndarray] = []
    for point in _points(axes, models):
        place = axes.transData.transform(np.asarray(point.get_xydata())[0])
        radius = point.get_markersize() / 2 * axes.figure.dpi / 72  # pixels
        beneath = sum(np.hypot(*(place - other)) < radius for other in places)
        point.set_markersize(point.get_markersize() + RING * beneath)
        places.append(place)


def _draw_front(
    axes: Axes, times: pd.Series, scores: pd.Series, models: Sequence[str], score: Quantity, factor: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the line between what a model reaches and what none does, to the edges of the panel; return its corners.

    Times that differ by at most `factor` count as equal.
    """
    axes.autoscale(False)
    costs = pd.DataFrame({"time": times[models], "score": scores[models] * (1 if score.smaller_is_better else -1)})
    ordered = times[front(costs, {"time": factor})].sort_values(kind="stable").index
    (_, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x = np.repeat([*times[ordered], right], 2)[:-1]
    y = np.repeat([top if score.smaller_is_better else bottom, *scores[ordered]], 2)[1:]
    axes.plot(x, y, color="0.65", linewidth=1, zorder=1.2)
    return x, y


def _label(
    axes: Axes,
    times: pd.Series,
    scores: pd.DataFrame,
    styles: Mapping[str, tuple[str, str]],
    baseline: str | None,
    fronts: Sequence[tuple[np.ndarray, np.ndarray]],
) -> None:
    """Name the baseline and each point, where the name covers no point, no bar, no line and no other name."""
    import textalloc

    models = list(styles)
    x, y, spread = (column[models].to_numpy() for column in (times, scores["mean"], scores["std"]))
    radii = [point.get_markersize() / 2 * axes.figure.dpi / 72 for point in _points(axes, models)]  # pixels
    names, at = models, [*zip(x, y, strict=True)]
    colours = lines = [colour for colour, _ in styles.values()]
    x_lines: list[Any] = [*zip(x, x, strict=True), *(corners for corners, _ in fronts)]
    y_lines: list[Any] = [*zip(y - spread, y + spread, strict=True), *(corners for _, corners in fronts)]
    if baseline:
        edges, height = axes.get_xlim(), scores.loc[baseline, "mean"]
        names, at = [f"baseline ({baseline})", *names], [(edges[1], height), *at]
        colours, lines = [BASELINE_COLOUR, *colours], ["none", *lines]
        x_lines, y_lines = [edges, *x_lines], [(height, height), *y_lines]
    points = {"x_scatter": x, "y_scatter": y, "scatter_sizes": radii}
    taken = {"x_lines": x_lines, "y_lines": y_lines, **points}
    textalloc.allocate(axes, *zip(*at, strict=True), names, **taken, textcolor=colours, linecolor=lines, **LABELS)
