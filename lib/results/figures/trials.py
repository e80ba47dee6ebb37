"""How a tuning went: scores by trial, and against every setting."""

from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from lib.core.search_space import Dimension, short_name, spelled
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers, legend_beside, panel_grid
from lib.results.trials import load_trials

BEST = "best so far"
EDGE = 0.03
"""Height of what has no score, as a share of the panel."""


class Settings(FigureSettings):
    """Scores by trial with the best so far, and a panel per setting that was searched; one figure per dataset."""

    about: ClassVar[Topic] = "training"
    divided: ClassVar[Literal["if_several"]] = "if_several"
    takes_tuning: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["trials"]
    stage: str = Field(description="Stage with `tuning`.")


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw the score of every trial by its number and against each of its settings, in the colour of its model.

    The line is the best score so far, a ring the best of all. Pruned trials are crosses, at the score of their last
    evaluation; one that diverged is a triangle at the lower edge. Scales are logarithmic where the space
    is.
    """
    searches = load_trials(scope, settings.stage)
    space = searches[0].space
    label = "\nor ".join(dict.fromkeys(each.score.label for each in searches))  # models may learn different tasks
    styles = colours_and_markers({row: scope.families.get(row, row) for row in scope.models})
    with matplotlib.style.context(STYLE):
        figure, (by_trial, *panels) = panel_grid(1 + len(space), PANEL_INCHES)
        by_trial.set(xlabel="trial", ylabel=label)
        by_trial.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        for axes, (place, dimension) in zip(panels, space.items(), strict=True):
            axes.set(xlabel=short_name(place).replace("_", " "), ylabel=label)
            _set_scale(axes, dimension)
        for search in searches:
            colour, _ = styles[search.row]
            name = f" ({search.row})" if len(searches) > 1 else ""
            frame = search.frame
            _reach(by_trial, 0, len(frame) - 1)
            by_trial.step(
                frame["number"], frame["best_so_far"], where="post", color=colour, linewidth=1.1, label=BEST + name
            )
            _draw_trials(by_trial, frame["number"], frame, colour, name)
            for axes, (place, dimension) in zip(panels, space.items(), strict=True):
                _draw_trials(axes, _positions(frame[place], dimension), frame, colour, name)
        legend_beside(figure, *by_trial.get_legend_handles_labels())
    return figure


def _set_scale(axes: Axes, dimension: Dimension) -> None:
    if dimension.values is not None:
        axes.set_xticks(range(len(dimension.values)), list(map(spelled, dimension.values)))
        axes.set_xlim(-0.5, len(dimension.values) - 0.5)
        return
    if dimension.log:
        axes.set_xscale("log")
    elif dimension.whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    assert dimension.low is not None  # the settings were checked
    assert dimension.high is not None
    _reach(axes, dimension.low, dimension.high)


def _reach(axes: Axes, low: float, high: float) -> None:
    """Let a panel reach at least from `low` to `high`; markers at its edge do not widen it."""
    axes.update_datalim([(low, 0), (high, 0)], updatey=False)


def _positions(values: pd.Series, dimension: Dimension) -> pd.Series:
    """Return where the values of a setting stand: listed ones in their order, numbers where they are."""
    return values if dimension.values is None else values.map(list(map(spelled, dimension.values)).index)


def _draw_trials(axes: Axes, positions: pd.Series, frame: pd.DataFrame, colour: str, name: str) -> None:
    """Draw the trials of `frame` at those positions, each kind with a label for the legend, if there are some."""
    kinds: dict[str, dict[str, Any]] = {
        "complete": {"marker": "o", "s": 26},
        "pruned": {"marker": "x", "linewidths": 1.1, "s": 22},
        "diverged": {"marker": "v", "s": 22, "transform": axes.get_xaxis_transform()},
    }
    for state, style in kinds.items():
        chosen = frame["state"] == state
        if chosen.any():
            heights = frame.loc[chosen, "score"].fillna(EDGE)
            axes.scatter(positions[chosen], heights, color=colour, label=state + name, gid=state, zorder=2.5, **style)
    best = frame["best"]
    axes.scatter(
        positions[best], frame.loc[best, "score"], s=90, facecolors="none", edgecolors="black", gid="best", zorder=2.6,
        label="best" + name,
    )  # fmt: skip
