"""The figures that show how near FAVOR+ and LSH come to exact attention, from their tables alone."""

from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from lib.results.style import STYLE

AVERAGE = "mean of all values, no attention"
FAVOR_LINES = {
    "cosh": {"color": "C1", "marker": "o", "label": "FAVOR+, cosh estimator (the mechanism's)"},
    "exp": {"color": "C2", "marker": "s", "linestyle": "--", "label": "FAVOR+, exp estimator"},
}
SORTINGS: dict[str, tuple[Any, str]] = {"lsh": ("-", "tokens sorted by LSH"), "random": (":", "tokens in random order")}
COLUMN_INCHES, ROW_INCHES, LEGEND_INCHES = 1.75, 2.2, 7.3
PANEL_INCHES = (3.5, 2.6)
PANELS_PER_ROW = 3


def favor_error_figure(table: pd.DataFrame) -> Figure:
    """Draw the relative error of FAVOR+ against features (above) and length (below), one column per norm.

    Lines are means over the seeds, bands reach from the least to the greatest. Features vary at the length that has
    most numbers of them, lengths at the number of features that has most of those.
    """
    length = _most_varied(table, "length", "features")
    features = _most_varied(table, "features", "length")
    norms = sorted(table["norm"].unique())
    with matplotlib.style.context(STYLE):
        size = (max(COLUMN_INCHES * len(norms), LEGEND_INCHES), 2 * ROW_INCHES)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(2, len(norms), squeeze=False, sharex="row", sharey=True)
        for column, norm in zip(panels.T, norms, strict=True):
            column[0].set_title(f"|q| = |k| = {norm:g}")
            rows = table[table["norm"] == norm]
            _draw_errors(column[0], rows[rows["length"] == length], "features")
            _draw_errors(column[1], rows[rows["features"] == features], "length")
            column[0].set_xlabel("features")
            column[1].set_xlabel("tokens")
        panels[0, 0].set_ylabel(f"relative error [%]\nat {length:,} tokens")
        panels[1, 0].set_ylabel(f"relative error [%]\nat {features:,} features")
        panels[0, 0].set_yscale("log")
        panels[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=3)
    return figure


def lsh_recall_figure(table: pd.DataFrame) -> Figure:
    """Draw the share of exact attention within the windows of LSH against the chunk size, one panel per input.

    Lines are means over the seeds, bands reach from the least to the greatest; dotted lines have the same windows over
    tokens in random order.
    """
    inputs = table[["cosine", "norm"]].drop_duplicates().sort_values(["cosine", "norm"]).to_numpy()
    hashes = sorted(table["hashes"].unique())
    colours = dict(zip(hashes, colormaps["viridis_r"](np.linspace(0.15, 0.95, len(hashes))), strict=True))
    shape = (-(-len(inputs) // PANELS_PER_ROW), min(PANELS_PER_ROW, len(inputs)))
    with matplotlib.style.context(STYLE):
        size = (PANEL_INCHES[0] * shape[1], PANEL_INCHES[1] * shape[0])
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
        for axes, (cosine, norm) in zip(panels.flat, inputs, strict=False):
            rows = table[(table["cosine"] == cosine) & (table["norm"] == norm)]
            clusters = f"clusters, cosine {cosine:g}" if cosine else "no clusters"
            keys, length = rows[["effective_keys", "length"]].mean()
            axes.set_title(f"|q| = {norm:g}, {clusters}\n", linespacing=1.4)
            axes.text(0, 1.03, f"attention spread over {keys:,.0f} of {length:,.0f} keys", transform=axes.transAxes)
            for (number, sorting), line in rows.groupby(["hashes", "sorting"]):
                _draw(axes, line, "chunk_size", "recall", color=colours[number], linestyle=SORTINGS[sorting][0])
            _powers_of_two(axes, rows["chunk_size"], numbers=4)
        for axes in panels.flat[len(inputs) :]:
            axes.set_visible(False)
        panels[0, 0].set_ylim(0, 100)
        figure.supxlabel("tokens in a chunk (a query sees three chunks in each round)", fontsize=9)
        figure.supylabel("exact attention within the windows [%]", fontsize=9)
        handles = [
            Line2D([], [], color=colours[number], marker="o", label=f"{number} hash{'es'[: 2 * (number > 1)]}")
            for number in hashes
        ]
        handles += [Line2D([], [], color="0.3", linestyle=style, label=name) for style, name in SORTINGS.values()]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure


def _most_varied(table: pd.DataFrame, name: str, by: str) -> int:
    """Return the value of column `name` that has most different values of column `by`."""
    return table.groupby(name)[by].nunique().idxmax()


def _draw_errors(axes: Axes, rows: pd.DataFrame, x: str) -> None:
    for estimator, style in FAVOR_LINES.items():
        _draw(axes, rows[rows["estimator"] == estimator], x, "relative_error", **style)
    average = {"color": "C0", "linestyle": ":", "marker": "", "label": AVERAGE}
    _draw(axes, rows, x, "average_relative_error", **average)
    _powers_of_two(axes, rows[x], numbers=3)


def _draw(axes: Axes, rows: pd.DataFrame, x: str, y: str, **style: Any) -> None:
    """Draw the mean of the column `y` in percent against `x`, and how far it spreads."""
    spread = 100 * rows.groupby(x)[y].agg(["mean", "min", "max"])
    look: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.3} | style
    axes.plot(spread.index, spread["mean"], **look)
    axes.fill_between(spread.index, spread["min"], spread["max"], color=look["color"], alpha=0.2, linewidth=0)


def _powers_of_two(axes: Axes, values: pd.Series, numbers: int) -> None:
    """Put a tick at each of `values` on a logarithmic axis, and the numbers of those that fit."""
    ticks = sorted(values.unique())
    step = -(-len(ticks) // numbers)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, ["" if place % step else f"{tick:g}" for place, tick in enumerate(ticks)])
    axes.xaxis.set_minor_locator(NullLocator())
