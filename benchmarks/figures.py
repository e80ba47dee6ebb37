"""Draw a figure of measurements from their table.

python benchmarks/figures.py attention_time|sequence_time|... --table FILE --out FILE ...
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchmarks.tables import BY_TRITON, EXACT, OURS, QUOTED_GB, attention_rows, crossovers, read_table
from lib.core import program
from lib.results.style import BASELINE_COLOUR, MARKERS, PANELS, STYLE, panel_grid, save_figure

ATTENTION_INCHES, SEQUENCE_INCHES, MEMORY_INCHES, RECALL_INCHES = (3.2, 3.0), (4.4, 3.2), (7.2, 4.4), (3.5, 2.6)
ERROR_INCHES, ERROR_LEGEND_INCHES = (1.75, 2.2), 7.3
RECALL_PANELS = 3
"""Panels per row."""

PASSES = {"forward": "forward", "forward_backward": "forward + backward"}
DASHES = {"attention": "-", "recurrent": "--", "state space": "-."}
COMPUTED_COLOUR, QUOTED_COLOUR = "0.6", "C4"
MB_A_GB = 1e9 / 2**20
AVERAGE = "mean of all values, no attention"
FAVOR_LINES = {
    "cosh": {"color": "C1", "marker": "o", "label": "FAVOR+, cosh estimator (the mechanism's)"},
    "exp": {"color": "C2", "marker": "s", "linestyle": "--", "label": "FAVOR+, exp estimator"},
}
SORTINGS: dict[str, tuple[Any, str]] = {"lsh": ("-", "tokens sorted by LSH"), "random": (":", "tokens in random order")}
Rows = Mapping[tuple[str, str], pd.DataFrame]


def attention_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time of a forward and backward pass without padding against the length, a panel per family.

    A star marks the first length from which on a mechanism of ours is faster than exact attention. Markers of times
    that were measured once are hollow, and counted. Where a mechanism has Triton kernels, its time with torch's
    operations is left out.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    rows = _as_chosen(attention_rows(costs))
    figure, panels = _attention_figure(rows, "median_ms", "forward + backward [ms]", base=10, once=True)
    for name, found in crossovers(costs).items():
        if found is not None and (OURS, name) in rows:
            height = rows[OURS, name]["median_ms"][found.faster]
            star = _look_of_ours(name, rows) | {"marker": "*", "markersize": 13, "markeredgecolor": "white"}
            panels[_family(name)].plot(found.faster, height, linestyle="none", zorder=3, **star)
    drawn = pd.concat(rows.values())["repetitions"]
    once = f"hollow marker: measured once ({(drawn == 1).sum()} of {len(drawn)} times drawn)"
    figure.supxlabel(f"{_axis(costs)}\nstar: faster than exact attention from here on; {once}", fontsize=8)
    return figure


def attention_memory_figure(costs: pd.DataFrame) -> Figure:
    """Draw the peak memory of a forward and backward pass without padding against the length, a panel per family.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    rows = _as_chosen(attention_rows(costs))
    figure, _ = _attention_figure(rows, "peak_mb", "peak memory [MiB]", base=2, once=False)
    figure.supxlabel(f"{_axis(costs)}\nevery point: one pass", fontsize=8)
    return figure


def sequence_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time per token of a layer against the length: a row per kind of pass, a column per number of threads.

    Recurrent layers are dashed, state-space ones dotted and dashed. Lines are medians, bands reach from the least to
    the greatest time.
    """
    measured, threads = costs[costs["skipped"].isna()], sorted(costs["threads"].unique())
    names = list(costs.sort_values("family", kind="stable")["layer"].unique())  # attention has its usual colours
    width, height = SEQUENCE_INCHES
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(width * len(threads) + 1, height * len(PASSES)), layout="constrained")
        panels = figure.subplots(len(PASSES), len(threads), squeeze=False, sharex=True, sharey=True)
        for line, (kind, label) in zip(panels, PASSES.items(), strict=True):
            line[0].set_ylabel(f"{label}, per token [µs]")
            for axes, number in zip(line, threads, strict=True):
                axes.set_title(f"{number} thread{'s' if number > 1 else ''} ({costs['device'].iloc[0]})")
                chosen = measured[(measured["pass"] == kind) & (measured["threads"] == number)]
                for (name, family), group in chosen.groupby(["layer", "family"], sort=False):
                    style = _look(name, names) | {"linestyle": DASHES[family]}
                    axes.plot(group["length"], group["us_per_token"], linewidth=1.2, label=name, gid=name, **style)
                    low, high = (1000 * group[end] / group["length"] for end in ("min_ms", "max_ms"))
                    axes.fill_between(group["length"], low, high, color=style["color"], alpha=0.15, linewidth=0)
                _log_scales(axes, costs["length"])
        for axes in panels[-1]:
            axes.set_xlabel("tokens of the sequence")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def memory_length_figure(costs: pd.DataFrame) -> Figure:
    """Draw the peak memory of attention against the length, with that of the N x N matrices and quoted values.

    Measurements with one head are multiplied by the number of heads, with a hollow marker.
    """
    names, heads = list(costs["mechanism"].unique()), costs["heads"].max()
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=MEMORY_INCHES, layout="constrained")
        axes = figure.subplots()
        computed = costs[costs["computed_mb"].notna()]
        label = "N x N matrices, computed"
        axes.plot(computed["length"], computed["computed_mb"] * heads / computed["heads"], ":", color=COMPUTED_COLOUR,
                  linewidth=3, label=label, gid=label)  # fmt: skip
        for name, group in costs[costs["skipped"].isna()].groupby("mechanism", sort=False):
            style = _look(name, names)
            whole = group["peak_mb"] * heads / group["heads"]
            axes.plot(group["length"], whole, label=name, gid=name, **style)
            few = group["heads"] < heads
            if few.any():
                hollow = style | {"linestyle": "none", "markerfacecolor": "white"}
                axes.plot(group["length"][few], whole[few], gid=f"one head: {name}", **hollow)
        quoted = [gigabytes * MB_A_GB for gigabytes in QUOTED_GB.values()]
        axes.plot(list(QUOTED_GB), quoted, "x", color=QUOTED_COLOUR, label="quoted in a lecture", gid="quoted")
        last = max(QUOTED_GB)
        axes.annotate(f">>{QUOTED_GB[last]} GB", (last, quoted[-1]), (-6, 0), textcoords="offset points",
                      ha="right", va="center", fontsize=8)  # fmt: skip
        axes.set_ylabel("peak memory, forward + backward [MiB]")
        axes.set_xlabel(f"tokens of one sequence, {heads} heads ({costs['device'].iloc[0]})")
        _log_scales(axes, costs["length"])
        figure.legend(loc="outside right upper")
        if (costs["heads"] < heads).any():
            figure.supxlabel(f"hollow marker: measured with one head, drawn times {heads}", fontsize=8)
    return figure


def favor_error_figure(table: pd.DataFrame) -> Figure:
    """Draw the relative error of FAVOR+ against features (above) and length (below), one column per norm.

    Lines are means over the seeds, bands reach from the least to the greatest. Features vary at the length that has
    most numbers of them, lengths at the number of features that has most of those.
    """
    length = _most_varied(table, "length", "features")
    features = _most_varied(table, "features", "length")
    norms = sorted(table["norm"].unique())
    width, height = ERROR_INCHES
    with matplotlib.style.context(STYLE):
        size = (max(width * len(norms), ERROR_LEGEND_INCHES), 2 * height)
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
    shape = (-(-len(inputs) // RECALL_PANELS), min(RECALL_PANELS, len(inputs)))
    with matplotlib.style.context(STYLE):
        size = (RECALL_INCHES[0] * shape[1], RECALL_INCHES[1] * shape[0])
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
        for axes, (cosine, norm) in zip(panels.flat, inputs, strict=False):
            rows = table[(table["cosine"] == cosine) & (table["norm"] == norm)]
            clusters = f"clusters, cosine {cosine:g}" if cosine else "no clusters"
            keys, length = rows[["effective_keys", "length"]].mean()
            axes.set_title(f"|q| = {norm:g}, {clusters}\n", linespacing=1.4)
            axes.text(0, 1.03, f"attention spread over {keys:,.0f} of {length:,.0f} keys", transform=axes.transAxes)
            for (number, sorting), line in rows.groupby(["hashes", "sorting"]):
                _draw_spread(axes, line, "chunk_size", "recall", color=colours[number], linestyle=SORTINGS[sorting][0])
            _powers_of_two(axes, rows["chunk_size"], "{:g}".format, most=4)
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


def _as_chosen(rows: Rows) -> Rows:
    """Return rows without those by torch of mechanisms of ours that have some by Triton, which runs take on a GPU."""
    return {(owner, name): group for (owner, name), group in rows.items() if (owner, name + BY_TRITON) not in rows}


def _attention_figure(rows: Rows, column: str, label: str, *, base: int, once: bool) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with `column` against the length, and its panels by family: ours solid, others dashed."""
    families = list(dict.fromkeys(_family(name) for _, name in rows))
    exact = rows[OURS, EXACT]
    with matplotlib.style.context(STYLE):
        figure, axes = panel_grid(len(families), ATTENTION_INCHES)
        panels = dict(zip(families, axes, strict=True))
        for family, panel in panels.items():
            if family != EXACT:
                panel.plot(list(exact.index), exact[column], color=BASELINE_COLOUR, linewidth=1, zorder=1.5)
            panel.set_title(family if family != EXACT else f"{EXACT} (grey in the other panels)")
        for (owner, name), group in rows.items():
            if owner == OURS and ("+" not in name or any(key[1] == name for key in rows if key[0] != OURS)):
                _draw_attention(panels[_family(name)], group, column, name, once, **_look_of_ours(name, rows))
            elif owner != OURS:
                style = _look_of_ours(name + BY_TRITON if (OURS, name + BY_TRITON) in rows else name, rows)
                _draw_attention(panels[_family(name)], group, column, f"{name}: {owner}", once, linestyle="--", **style)
        for number, panel in enumerate(axes):
            panel.sharex(axes[0])
            panel.sharey(axes[0])
            if number % PANELS == 0:
                panel.set_ylabel(label)
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), fontsize=7)
        _powers_of_two(axes[0], exact.index, lambda n: f"{n // 1024}k" if n % 1024 == 0 else f"{n:,}")
        axes[0].set_yscale("log", base=base)
        axes[0].yaxis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))
        axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        axes[0].yaxis.set_minor_formatter(NullFormatter())
    return figure, panels


def _axis(costs: pd.DataFrame) -> str:
    first = costs.iloc[0]
    tokens = f"tokens a sequence (k: 1,024), {first['batch'] * first['length']:,} in all ({first['device']})"
    return f"{tokens}; ours solid, others dashed"


def _family(name: str) -> str:
    return name.removesuffix(BY_TRITON).split("+")[0].split("-")[0]


def _look_of_ours(name: str, rows: Rows) -> dict[str, Any]:
    """Return colour and marker of a mechanism of ours within its family."""
    place = [other for owner, other in rows if owner == OURS and _family(other) == _family(name)].index(name)
    return {"color": f"C{place}", "marker": MARKERS[place % len(MARKERS)], "markersize": 4}


def _look(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Return colour, of the family, and marker, of the member, of one of `names`."""
    families = list(dict.fromkeys(_family(other) for other in names))
    members = [other for other in names if _family(other) == _family(name)]
    marker = MARKERS[members.index(name) % len(MARKERS)]
    return {"color": f"C{families.index(_family(name))}", "marker": marker, "markersize": 4}


def _draw_attention(axes: Axes, group: pd.DataFrame, column: str, label: str, once: bool, **style: Any) -> None:
    """Draw a line with full markers, and over them hollow ones for rows that were measured once (if `once`)."""
    axes.plot(group.index, group[column], linewidth=1.2, label=label, gid=label, **style)
    single = group[group["repetitions"] == 1] if once else group.head(0)
    if len(single):
        hollow = style | {"linestyle": "none", "markerfacecolor": "white"}
        axes.plot(single.index, single[column], gid=f"measured once: {label}", **hollow)


def _most_varied(table: pd.DataFrame, name: str, by: str) -> int:
    """Return the value of column `name` that has most different values of column `by`."""
    return table.groupby(name)[by].nunique().idxmax()


def _draw_errors(axes: Axes, rows: pd.DataFrame, x: str) -> None:
    for estimator, style in FAVOR_LINES.items():
        _draw_spread(axes, rows[rows["estimator"] == estimator], x, "relative_error", **style)
    average = {"color": "C0", "linestyle": ":", "marker": "", "label": AVERAGE}
    _draw_spread(axes, rows, x, "average_relative_error", **average)
    _powers_of_two(axes, rows[x], "{:g}".format, most=3)


def _draw_spread(axes: Axes, rows: pd.DataFrame, x: str, y: str, **style: Any) -> None:
    """Draw the mean of the column `y` in percent against `x`, and how far it spreads."""
    spread = 100 * rows.groupby(x)[y].agg(["mean", "min", "max"])
    look: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.3} | style
    axes.plot(spread.index, spread["mean"], **look)
    axes.fill_between(spread.index, spread["min"], spread["max"], color=look["color"], alpha=0.2, linewidth=0)


def _log_scales(axes: Axes, lengths: pd.Series) -> None:
    _powers_of_two(axes, lengths, "{:,}".format)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,.9g}")


def _powers_of_two(axes: Axes, values: pd.Series | pd.Index, text: Callable[[Any], str], most: int = 20) -> None:
    """Put a tick at each of `values` on a logarithmic axis, and texts at `most` of them."""
    ticks = sorted(values.unique())
    step = -(-len(ticks) // most)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, ["" if place % step else text(tick) for place, tick in enumerate(ticks)])
    axes.xaxis.set_minor_locator(NullLocator())


FIGURES = {
    "attention_time": (attention_time_figure, "attention_cost"),
    "attention_memory": (attention_memory_figure, "attention_cost"),
    "sequence_time": (sequence_time_figure, "sequence_cost"),
    "memory_length": (memory_length_figure, "memory_cost"),
    "favor_error": (favor_error_figure, "favor_error"),
    "lsh_recall": (lsh_recall_figure, "lsh_recall"),
}
"""Function of each figure, and its table."""


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("figure", choices=FIGURES, help="what to draw")
    parser.add_argument("--table", required=True, metavar="FILE", help="CSV file of the program that measured it")
    parser.add_argument("--out", required=True, nargs="+", metavar="FILE", help="files to write: .svg, .png, .pdf")
    arguments = parser.parse_args(argv)
    draw, table = FIGURES[arguments.figure]
    save_figure(draw(read_table(arguments.table, table)), arguments.out)


if __name__ == "__main__":
    program.start(main)
