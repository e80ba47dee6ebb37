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
from lib.results.settings import FigureSettings
from lib.results.style import BASELINE_COLOUR, BEHIND, POINT, STYLE, colours_and_markers

PANEL_WIDTH, ROW_HEIGHT, MARGINS = 3.5, 0.22, 1.0
"""Inches."""


class ScoreIntervalsFigure(FigureSettings):
    """F1 on test with its interval, best model first, one panel per dataset."""

    needs_predictions: ClassVar[bool] = True
    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)
    leaves_out_baseline: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True

    kind: Literal["score_intervals"]
    stage: str
    """Stage whose predictions are scored."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals."""

    def notes(self, scope: Scope) -> Iterable[str]:
        """See the base: they explain the intervals, and why these may be too short."""
        return interval_notes(self._grid(scope), self.confidence)

    def _grid(self, scope: Scope) -> pd.DataFrame:
        return scope.grid(self.stage, models=[*scope.trained, *filter(None, [scope.baseline])])

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw F1 on test, the mean over seeds, with its interval, one panel per dataset, best model first.

        The intervals are of documents and, with more than one seed, of seeds (`lib.evaluation.statistics.Estimate`).
        The baseline is a dashed line, with its interval as a band.
        """
        baseline = scope.baseline
        styles = colours_and_markers({row: scope.families[row] for row in scope.trained})
        grid = self._grid(scope)
        shown = set(grid.loc[grid["row"].isin(styles), "dataset"])
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in shown]
        repeated = repetitions(grid).groupby("dataset").max() > 1
        size = PANEL_WIDTH * len(datasets), MARGINS + ROW_HEIGHT * len(styles)
        figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(wspace=0.04))  # room for names between the panels
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            scores = scores_of(paired_predictions(grid[grid["dataset"] == dataset]), self.confidence)
            axes.set_title(scope.title(dataset))
            f1 = scope.quantity("f1", self.stage, dataset)
            over = "over documents and seeds" if repeated[dataset] else "over documents"
            # It may be wide.
            axes.set_xlabel(f"test {f1.label}, {100 * self.confidence:g} % interval\n{over}", loc="right")
            made = [row for row in styles if row in scores.index]
            _draw_models(axes, scores.loc[made].sort_values("score", ascending=False, kind="stable"), styles)
            if baseline in scores.index:
                score, low, high = scores.loc[baseline]
                axes.axvspan(low, high, color=BASELINE_COLOUR, alpha=0.12, linewidth=0)
                axes.axvline(score, linestyle="--", linewidth=1, label=f"baseline ({baseline})", **BEHIND)
        # Not every dataset has a run of the baseline.
        if drawn := [handle for axes in panels for handle in axes.get_legend_handles_labels()[0]]:
            figure.legend(handles=drawn[:1], loc="outside lower right")
        return figure


def _draw_models(axes: Axes, scores: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw a point with its interval for each model, the first one on top, and name it at the axis."""
    for place, (model, (score, low, high)) in enumerate(scores.iterrows()):
        colour, marker = styles[model]
        # Ticks show the ends of an interval that is narrower than its marker.
        axes.hlines(place, low, high, color=colour, linewidth=1.2)
        axes.plot([low, high], [place, place], color=colour, linestyle="none", marker="|", markersize=8)
        axes.plot(score, place, color=colour, marker=marker, markersize=4.5, gid=model, **POINT)
    axes.set_yticks(range(len(scores)), scores.index)
    axes.set_ylim(len(scores) - 0.3, -0.7)
    axes.grid(axis="y", visible=False)
