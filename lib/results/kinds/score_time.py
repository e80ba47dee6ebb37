"""A score against the training time that it cost."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import PositiveFloat
from lib.results.costs import CONFIDENCE, front, measured, tolerance, without_time
from lib.results.predictions import without_copies
from lib.results.quantities import Quantity, time_unit
from lib.results.scope import Scope
from lib.results.settings import FigureSettings
from lib.results.style import (
    BEHIND,
    PANEL_INCHES,
    STYLE,
    colours_and_markers,
    draw_with_bars,
    legend_beside,
    panel_grid,
)

SIZE, RING = 6.0, 3.0
"""Size of a marker, and how much larger each further one at the same place is, in points."""


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
        training loop have no time and are left out. Markers are open, and larger where another model is at the same
        place, so that none hides another. Times are seconds if all are below a minute.
        """
        score = scope.quantity(self.column, self.stage)
        baseline = scope.baseline
        drawn = [*scope.trained, *([baseline] if baseline else [])]
        grid = scope.grid(self.stage, [score.source], drawn)
        seconds = scope.totals("training_seconds", self.time, scope.trained, "sum", self.stage)
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
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        apart = self._on_different_hardware(scope)
        handles: dict[str, Artist] = {}
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset))
            axes.set_xlabel(f"training time, {' + '.join(self.time)} [{unit}]")
            axes.set_ylabel(_label_of(scope.quantity(self.column, self.stage, dataset)))
            here = points.loc[dataset]
            made = [model for model in styles if model in here.index[here["time"].notna()]]
            if baseline in here.index and pd.notna(here.loc[baseline, "mean"]):
                line = axes.axhline(here.loc[baseline, "mean"], linestyle="--", linewidth=1, **BEHIND)
                handles[f"baseline ({baseline})"] = line
            places = list(zip(here.loc[made, "time"], here.loc[made, "mean"], strict=True))
            for number, (model, (time, mean)) in enumerate(zip(made, places, strict=True)):
                colour, marker = styles[model]
                size = SIZE + RING * places[:number].count((time, mean))
                style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": size, "fillstyle": "none"}
                draw_with_bars(axes, time, mean, model, yerr=here.loc[model, "std"] or None, **style)
                handles[model] = next(line for line in axes.lines if line.get_gid() == model)
            if dataset not in apart:
                runs = grid[(grid["dataset"] == dataset) & grid["row"].isin(made)].drop_duplicates("folder")
                factor = tolerance(runs.set_index("row")["training_seconds"], self.time_tolerance, CONFIDENCE) or 1.0
                _draw_front(axes, here["time"], here["mean"], made, score, factor)
        legend_beside(figure, list(handles.values()), list(handles))
        return figure


def _label_of(score: Quantity) -> str:
    """Return the label of the axis of a score, which says if it is of test documents."""
    of_test = score.source.startswith("test_") and not score.label.startswith("test ")
    return f"test {score.label}" if of_test else score.label


def _draw_front(
    axes: Axes, times: pd.Series, scores: pd.Series, models: Sequence[str], score: Quantity, factor: float
) -> None:
    """Draw the line between what a model reaches and what none does, to the edges of the panel.

    Times that differ by at most `factor` count as equal.
    """
    axes.margins(x=0.1, y=0.1)
    costs = pd.DataFrame({"time": times[models], "score": scores[models] * (1 if score.smaller_is_better else -1)})
    ordered = times[front(costs, {"time": factor})].sort_values(kind="stable").index
    (_, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    axes.autoscale(False)  # to the edges as they are
    x = np.repeat([*times[ordered], right], 2)[:-1]
    y = np.repeat([top if score.smaller_is_better else bottom, *scores[ordered]], 2)[1:]
    axes.plot(x, y, color="0.65", linewidth=1, zorder=1.2)
