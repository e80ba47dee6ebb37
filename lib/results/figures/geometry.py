"""The geometry of attention against the steps of a training: how it changes, or that it does not."""

import textwrap
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field

from lib.core.errors import DataError
from lib.core.settings import check
from lib.results.geometry_values import (
    LABELS,
    OF_WEIGHTS,
    GeometrySettings,
    Measure,
    Weights,
    at_ends,
    geometry_values,
    over_layers,
)
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import BASELINE_COLOUR, BEHIND, PANEL_INCHES, STYLE, legend_beside, line_styles, panel_grid

RANDOM = "random matrices"
NOTE_CHARACTERS = 15
"""Characters of the note per inch."""
SHADE = 0.3
"""Opacity of all bands together, so that lines stay visible; a single band has at most half."""


class Settings(GeometrySettings, FigureSettings):
    """A measure of attention by optimiser step, one line per model, one panel per dataset."""

    about: ClassVar[Topic] = "training"

    kind: Literal["geometry"]
    measure: Measure = Field(
        description="Drawn quantity: `symmetry` or `directionality` of the weights for queries and keys, "
        "`upper_triangle`, the share of squared attention weights on later tokens, or `gradient_norm` of these "
        "weights."
    )
    weights: Weights = Field(
        "merged",
        description="The model's weights (`merged`), their change by LoRA (`delta`), or the product of LoRA's own "
        "matrices (`adapter`).",
    )

    @check
    def _what_is_set_does_something(self) -> Iterator[str]:
        if self.measure not in OF_WEIGHTS:
            for name in ("weights", "positions"):
                value = getattr(self, name)
                if value != type(self).model_fields[name].default:
                    yield f"{name} = {value} does nothing with measure = '{self.measure}'. Leave it out"
        if self.measure == "gradient_norm" and self.per == "head":
            yield "per = 'head': gradients are measured by layer. Choose per: layer"


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw a measure against the optimiser steps, one panel per dataset.

    Lines are means over layers, or heads, of means over the seeds; bands span one standard deviation over the layers to
    either side. Grey lines are the mean of random projections of the same shapes, and one deviation to either side of
    it. Below the figure of merged symmetry stands how far at most the models' updates could have moved it.

    Raises:
        DataError: a run is missing, duplicated or without its table of geometry, or nothing was measured of what is
            asked for.
    """
    chosen: dict[str, Any] = {name: getattr(settings, name) for name in ("weights", "positions", "per")}
    curves = over_layers(geometry_values(scope, list(scope.stages), settings.measure, **chosen))
    if curves.empty:
        raise DataError(
            f"no run of {', '.join(scope.stages)} has {settings.measure} of weights '{settings.weights}' per "
            f"{settings.per}. Expected some: `delta` and `adapter` need LoRA on queries or keys, `upper_triangle` "
            "needs documents (`geometry` of the stage). Change the figure's settings."
        )
    random = pd.Series(dtype=float)
    if settings.measure in OF_WEIGHTS:
        random = geometry_values(scope, list(scope.stages), settings.measure, source="random", **chosen)
    drawn = curves.index.unique("row")
    styles = line_styles({row: scope.families[row] for row in scope.models if row in drawn})
    named = dict.fromkeys(dataset for of_stage in scope.stages.values() for dataset in of_stage)
    datasets = [dataset for dataset in named if dataset in curves.index.unique("dataset")]
    with matplotlib.style.context(STYLE):
        figure, panels = panel_grid(len(datasets), PANEL_INCHES)
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset)
            if dataset in random.index.unique(0):
                _draw_random(axes, random.loc[dataset])
            for row, style in styles.items():
                if (dataset, row) in curves.index.droplevel("step"):
                    _draw_curve(axes, curves.loc[(dataset, row)], style, min(SHADE / 2, SHADE / len(styles)))
            axes.set_xlabel("optimiser step")
            axes.set_ylabel(_label(settings))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if note := _note(settings, scope):
            wrapped = textwrap.fill(note, int(NOTE_CHARACTERS * figure.get_figwidth()), break_on_hyphens=False)
            figure.supxlabel(wrapped, x=0.01, ha="left", fontsize=7, color=BASELINE_COLOUR)
        handles = {line.get_label(): line for axes in panels for line in axes.lines}
        names = [*styles, *([RANDOM] if RANDOM in handles else [])]
        legend_beside(figure, [handles[name] for name in names], names)
    return figure


def _label(settings: Settings) -> str:
    label = LABELS[settings.measure]
    if settings.measure not in OF_WEIGHTS:
        return label
    of = {"merged": "of merged weights", "delta": "of LoRA's change", "adapter": "of LoRA's own matrices"}
    where = (
        "" if settings.positions == [0] else f",\nkeys at {', '.join(f'{place:+d}' for place in settings.positions)}"
    )
    return f"{label} {of[settings.weights]}{where}"


def _draw_curve(axes: Axes, curve: pd.DataFrame, style: dict[str, Any], shade: float) -> None:
    axes.plot(curve.index, curve["mean"], **style)
    low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
    axes.fill_between(curve.index, low, high, color=style["color"], alpha=shade, linewidth=0)


def _draw_random(axes: Axes, values: pd.Series) -> None:
    axes.axhline(values.mean(), linestyle="--", linewidth=1, label=RANDOM, gid=RANDOM, **BEHIND)
    if len(values) > 1:
        for edge in (values.mean() - values.std(), values.mean() + values.std()):
            axes.axhline(edge, linestyle=":", linewidth=0.8, **BEHIND)


def _note(settings: Settings, scope: Scope) -> str | None:
    """Return by how much at most the updates could have moved merged symmetry, if that is drawn and there are some."""
    if (settings.measure, settings.weights) != ("symmetry", "merged"):
        return None
    bounds = geometry_values(
        scope, list(scope.stages), "bound", weights="delta", positions=settings.positions, per=settings.per
    )
    if bounds.empty:
        return None
    greatest = at_ends(bounds)[1]["mean"].groupby("row").max()
    moves = ", ".join(f"{row} {greatest[row]:.2g}" for row in scope.models if row in greatest)
    return f"An update as large as the one learnt could move symmetry by at most: {moves}."
