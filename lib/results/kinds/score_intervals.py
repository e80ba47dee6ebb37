"""F1 of every model with its interval."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from pydantic import Field

from lib.results.predictions import interval_notes, paired_predictions, repetitions, scores_of
from lib.results.scope import Scope
from lib.results.settings import MODEL, FigureSettings, PoolingSettings, TableSettings
from lib.results.style import BASELINE_COLOUR, ERROR_BAR, STYLE, colours_and_markers
from lib.results.table import Column, Table, interval_columns

PANEL_WIDTH, ROW_HEIGHT, MARGINS = 3.5, 0.22, 1.0
"""Inches."""


class ScoreIntervals(PoolingSettings):
    """Base of the settings of the table and of the figure."""

    needs_predictions: ClassVar[bool] = True
    takes_sets: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True

    kind: Literal["score_intervals"]
    stage: str
    """Stage whose predictions are scored."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals."""


class ScoreIntervalsTable(ScoreIntervals, TableSettings):
    """F1 on test of each model with its interval, and the documents and seeds that it is of."""

    def make(self, scope: Scope) -> Table:
        """Return F1 on test in percent, the mean over seeds, with its interval: a row per dataset and model.

        Intervals are those of the figure. Seeds that repeat one evaluation count once.
        """
        grid = scope.grid(self.stage)
        rows = []
        for dataset, runs in grid.groupby("dataset", sort=False):
            paired = paired_predictions(runs)
            scores = scores_of(paired, self.confidence).rename(columns={"score": "f1"})
            estimates = [paired.score(number) for number in range(len(scores))]
            sizes = {name: [getattr(each, name) for each in estimates] for name in ("documents", "seeds")}
            rows.append(scores.assign(**sizes, dataset=dataset).rename_axis(MODEL).reset_index())
        columns = {"f1": Column(scope.quantity("f1", self.stage).label, 2), **interval_columns(self.confidence)}
        columns |= {"documents": Column("test documents", 0), "seeds": Column("seeds", 0)}
        note = " ".join(interval_notes(grid, self.confidence))
        return Table(pd.concat(rows)[["dataset", MODEL, *columns]], columns, note)


class ScoreIntervalsFigure(ScoreIntervals, FigureSettings):
    """F1 on test as bars with intervals, best model first, one panel per dataset."""

    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)

    def notes(self, scope: Scope) -> Iterable[str]:
        """See the base: they explain the intervals, and why these may be too short."""
        return interval_notes(scope.grid(self.stage), self.confidence)

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw F1 on test, the mean over seeds, as a bar with its interval, one panel per dataset, best model first.

        The intervals are of documents and, with more than one seed, of seeds (`lib.evaluation.statistics.Estimate`).
        The baseline is grey.
        """
        styles = colours_and_markers({row: scope.families[row] for row in scope.trained})
        grid = scope.grid(self.stage)
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in set(grid["dataset"])]
        repeated = repetitions(grid).groupby("dataset").max() > 1
        size = PANEL_WIDTH * len(datasets), MARGINS + ROW_HEIGHT * grid["row"].nunique()
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04))  # room for names between the panels
        for axes, dataset in zip(figure.subplots(1, len(datasets), squeeze=False)[0], datasets, strict=True):
            scores = scores_of(paired_predictions(grid[grid["dataset"] == dataset]), self.confidence)
            axes.set_title(scope.title(dataset))
            f1 = scope.quantity("f1", self.stage, dataset)
            over = "over documents and seeds" if repeated[dataset] else "over documents"
            # It may be wide.
            axes.set_xlabel(f"test {f1.label}, {100 * self.confidence:g} % interval\n{over}", loc="right")
            _draw_bars(axes, scores.sort_values("score", ascending=False, kind="stable"), styles)
        return figure


def _draw_bars(axes: Axes, scores: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw a bar with its interval and its number for each model, the first one on top, and name it at the axis."""
    colours = [styles[model][0] if model in styles else BASELINE_COLOUR for model in scores.index]
    ends = scores[["low", "high"]].sub(scores["score"], axis="index").abs().T
    bars = axes.barh(range(len(scores)), scores["score"], xerr=ends, color=colours, alpha=0.5, error_kw=ERROR_BAR)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=7)
    axes.set(xlim=(0, 118), xticks=range(0, 101, 20))  # room for the number of a model without errors
    axes.set_yticks(range(len(scores)), scores.index)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
