"""Costs or scores of the models as ordered bars."""

from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from pydantic import Field

from lib.results.predictions import without_copies
from lib.results.quantities import QUANTITIES, Quantity, in_readable_unit, quantity, shown_decimals, times_note
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import BASELINE_COLOUR, ERROR_BAR, STYLE, colours_and_markers

WIDTH_INCHES = 3.6
BAR_INCHES = 0.2
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo")
"""One hatch per family, so that bars also differ in greyscale."""


class BarsFigure(FigureSettings):
    """Quantities of the runs of a stage as ordered bars, one panel per dataset and quantity."""

    about: ClassVar[Topic] = "cost"
    compares_with: ClassVar[tuple[Literal["baseline"]]] = ("baseline",)

    kind: Literal["bars"]
    stage: str
    """Stage whose runs are drawn."""
    columns: list[str] = Field(["memory", "minutes"], min_length=1)
    """Quantity of each run that is drawn, with the names of table columns."""

    def notes(self, scope: Scope) -> list[str]:
        """See the base."""
        return [times_note(quantity(column).label for column in self.columns)]

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw one bar per model, the least on top, a row of panels for each quantity and a panel for each dataset.

        Bars are means over the seeds, with a line of one standard deviation to either side where there is more than one
        seed, and their figures next to them. What a model without a training loop does not have is a dash. The kind of
        memory is named: on the axis if all have the same, else at each bar.
        """
        grid = scope.grid(self.stage, [quantity(column).source for column in self.columns])
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in set(grid["dataset"])]
        height = BAR_INCHES * len(scope.models) + 0.9
        figure = Figure(figsize=(WIDTH_INCHES * len(datasets), height * len(self.columns)), layout="constrained")
        panels = figure.subplots(len(self.columns), len(datasets), squeeze=False)
        for line, each in zip(panels, self.columns, strict=True):
            for axes, dataset in zip(line, datasets, strict=True):
                axes.set_title(scope.title(dataset))
                shown = in_readable_unit(scope.quantity(each, self.stage, dataset), grid)
                _draw_bars(axes, shown, grid[grid["dataset"] == dataset], scope)
        return figure


def _draw_bars(axes: Axes, shown: Quantity, runs: pd.DataFrame, scope: Scope) -> None:
    styles = colours_and_markers({row: scope.families[row] for row in scope.trained})
    families = list(dict.fromkeys(scope.families[row] for row in scope.trained))
    counted = without_copies(runs) if shown.score else runs  # each evaluation has a cost of its own
    bars = (shown.factor * counted.groupby("row")[shown.source].agg(["mean", "std"])).sort_values("mean")
    label, kinds = shown.label, runs.groupby("row")["peak_memory_kind"].agg(_kinds)
    of_one_kind = shown != QUANTITIES["memory"] or kinds.nunique() == 1
    if shown == QUANTITIES["memory"] and of_one_kind:
        label = f"peak {kinds.iloc[0]} {label}"
    for place, (row, bar) in enumerate(bars.iterrows()):
        colour, hatch = BASELINE_COLOUR, ""
        if row in styles:
            colour, hatch = styles[row][0], HATCHES[families.index(scope.families[row]) % len(HATCHES)]
        missing = pd.isna(bar["mean"])
        line = {"ecolor": "black", **ERROR_BAR}
        error: dict[str, Any] = {"xerr": None if pd.isna(bar["std"]) else bar["std"], "error_kw": line}
        fill: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        drawn = axes.barh(place, 0 if missing else bar["mean"], **error, **fill, gid=row)
        for artist in drawn.errorbar.get_children() if drawn.errorbar else ():
            artist.set_path_effects([withStroke(linewidth=2, foreground="white")])  # to be seen on the bar
        figure = "-" if missing else f"{bar['mean']:,.{shown_decimals(label, shown.decimals, bar['mean'])}f}"
        axes.bar_label(drawn, [figure if of_one_kind else f"{figure} {kinds[row]}"], padding=2, fontsize=7)
    axes.set_yticks(range(len(bars)), list(bars.index))
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.invert_yaxis()
    axes.set(xlabel=label, xmargin=0.2 if of_one_kind else 0.35)  # room for the figures


def _kinds(of_runs: pd.Series) -> str:
    """Return the kinds of memory that were measured over the seeds: `GPU`, `resident`, or both."""
    return " and ".join(sorted(set(of_runs))).replace("gpu", "GPU")
