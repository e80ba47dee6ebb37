"""Figures over the length of one sequence, from the tables that were measured: time of a layer, memory of attention."""

from collections.abc import Iterable

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.measure.cost_figures import look
from lib.measure.tables import QUOTED_GB
from lib.results.style import STYLE

TIME_INCHES, MEMORY_INCHES = (4.4, 3.2), (7.2, 4.4)
PASSES = {"forward": "forward", "forward_backward": "forward + backward"}
DASHES = {"attention": "-", "recurrent": "--", "state space": "-."}
COMPUTED_COLOUR, QUOTED_COLOUR = "0.6", "C4"
MB_A_GB = 1e9 / 2**20


def sequence_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time per token of a layer against the length: a row for each kind of pass, a column for each threads.

    Recurrent layers are dashed, state-space ones dotted and dashed. Lines are medians, bands reach from the least to
    the greatest time.
    """
    measured, threads = costs[costs["skipped"].isna()], sorted(costs["threads"].unique())
    names = list(costs.sort_values("family", kind="stable")["layer"].unique())  # attention has the colours of old
    width, height = TIME_INCHES
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(width * len(threads) + 1, height * len(PASSES)), layout="constrained")
        panels = figure.subplots(len(PASSES), len(threads), squeeze=False, sharex=True, sharey=True)
        for line, (kind, label) in zip(panels, PASSES.items(), strict=True):
            line[0].set_ylabel(f"{label}, per token [µs]")
            for axes, number in zip(line, threads, strict=True):
                axes.set_title(f"{number} thread{'s' if number > 1 else ''} ({costs['device'].iloc[0]})")
                chosen = measured[(measured["pass"] == kind) & (measured["threads"] == number)]
                for (name, family), group in chosen.groupby(["layer", "family"], sort=False):
                    colour, marker = look(name, names)
                    style = {"color": colour, "marker": marker, "markersize": 4, "linestyle": DASHES[family]}
                    axes.plot(group["length"], group["us_per_token"], linewidth=1.2, label=name, gid=name, **style)
                    low, high = (1000 * group[end] / group["length"] for end in ("min_ms", "max_ms"))
                    axes.fill_between(group["length"], low, high, color=colour, alpha=0.15, linewidth=0)
        _scale(panels.flat, costs["length"])
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
            colour, marker = look(name, names)
            whole = group["peak_mb"] * heads / group["heads"]
            axes.plot(group["length"], whole, color=colour, marker=marker, markersize=4, label=name, gid=name)
            few = group["heads"] < heads
            if few.any():
                axes.plot(group["length"][few], whole[few], linestyle="none", color=colour, marker=marker, markersize=4,
                          markerfacecolor="white", gid=f"one head: {name}")  # fmt: skip
        quoted = [gigabytes * MB_A_GB for gigabytes in QUOTED_GB.values()]
        axes.plot(list(QUOTED_GB), quoted, "x", color=QUOTED_COLOUR, label="quoted in a lecture", gid="quoted")
        last = max(QUOTED_GB)
        axes.annotate(f">>{QUOTED_GB[last]} GB", (last, quoted[-1]), (-6, 0), textcoords="offset points",
                      ha="right", va="center", fontsize=8)  # fmt: skip
        axes.set_ylabel("peak memory, forward + backward [MiB]")
        axes.set_xlabel(f"tokens of one sequence, {heads} heads ({costs['device'].iloc[0]})")
        _scale([axes], costs["length"])
        figure.legend(loc="outside right upper")
        if (costs["heads"] < heads).any():
            figure.supxlabel(f"hollow marker: measured with one head, drawn times {heads}", fontsize=8)
    return figure


def _scale(panels: Iterable[Axes], lengths: pd.Series) -> None:
    ticks = sorted(lengths.unique())
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{length:,}" for length in ticks])
        axes.minorticks_off()
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.9g}")
