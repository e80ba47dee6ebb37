"""Figures of what attention costs, from the rows without padding of the table `attention_cost` that was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lib.measure.crossovers import BY_TRITON, EXACT, OURS, attention_rows, crossovers
from lib.results.style import MARKERS, STYLE

INCHES = (9.6, 5.8)
Rows = Mapping[tuple[str, str], pd.DataFrame]


def attention_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time of a forward and backward pass against the length: our mechanisms, and ours beside others'.

    A star marks the first length from which on a mechanism of ours is faster than exact attention. Markers of times
    that were measured once are hollow, and counted. Where a mechanism has Triton kernels, its time with torch's
    operations is left out.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    rows = _as_chosen(attention_rows(costs))
    title = "Ours; star: faster than exact from here on"
    figure = _figure(costs, rows, "median_ms", title, "forward + backward [ms]", base=10, once=True)
    for name, found in crossovers(costs).items():
        if found is not None and (OURS, name) in rows:
            height = rows[OURS, name]["median_ms"][found.faster]
            colour, _ = look(name, _names(rows))
            figure.axes[0].plot(found.faster, height, "*", color=colour, markersize=15, markeredgecolor="white")
    drawn = pd.concat(rows.values())["repetitions"]
    figure.supxlabel(f"hollow marker: measured once ({(drawn == 1).sum()} of {len(drawn)} times drawn)", fontsize=8)
    return figure


def attention_memory_figure(costs: pd.DataFrame) -> Figure:
    """Draw the peak memory of a forward and backward pass against the length: our mechanisms, and ours beside others'.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    figure = _figure(
        costs, _as_chosen(attention_rows(costs)), "peak_mb", "Ours", "peak memory [MiB]", base=2, once=False
    )
    figure.supxlabel("every point: one pass", fontsize=8)
    return figure


def _as_chosen(rows: Rows) -> Rows:
    """Return rows without those by torch of mechanisms of ours that have some by Triton, which runs take on a GPU."""
    return {(owner, name): group for (owner, name), group in rows.items() if (owner, name + BY_TRITON) not in rows}


def _figure(costs: pd.DataFrame, rows: Rows, column: str, title: str, label: str, *, base: int, once: bool) -> Figure:
    """Return a figure with `column` against the length: left our mechanisms, right ours (solid) beside others."""
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for (implementation, name), group in rows.items():
            if implementation == OURS and "+" not in name:
                _draw(left, group, column, look(name, _names(rows)), name, once=once)
            elif implementation != OURS:
                ours = name + BY_TRITON if (OURS, name + BY_TRITON) in rows else name
                _draw(right, rows[OURS, ours], column, look(ours, _names(rows)), None, once=once)
                _draw(
                    right,
                    group,
                    column,
                    look(ours, _names(rows)),
                    f"{name}: {implementation}",
                    once=once,
                    linestyle="--",
                )
        left.set_title(title)
        left.set_ylabel(label)
        right.set_title("Ours (solid) beside others (dashed)")
        lengths, first = list(rows[OURS, EXACT].index), costs.iloc[0]
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
            axes.minorticks_off()
            axes.set_yscale("log", base=base)
            axes.yaxis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(f"tokens a sequence, {first['batch'] * first['length']:,} in all ({first['device']})")
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=7)
    return figure


def look(name: str, names: Sequence[str]) -> tuple[str, str]:
    """Return colour, of the family, and marker, of the member, of one of `names`."""
    family = name.split("-")[0]
    families = list(dict.fromkeys(other.split("-")[0] for other in names))
    members = [other for other in names if other.split("-")[0] == family]
    return f"C{families.index(family)}", MARKERS[members.index(name) % len(MARKERS)]


def _names(rows: Rows) -> list[str]:
    return [name for implementation, name in rows if implementation == OURS]


def _draw(
    axes: Axes,
    group: pd.DataFrame,
    column: str,
    look: tuple[str, str],
    label: str | None,
    *,
    once: bool,
    linestyle: str = "-",
) -> None:
    """Draw a line with full markers, and over them hollow ones for rows that were measured once (if `once`)."""
    colour, marker = look
    style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
    axes.plot(group.index, group[column], linestyle, linewidth=1.2, label=label, gid=label, **style)
    single = group[group["repetitions"] == 1] if once else group.head(0)
    if len(single):
        gid = f"measured once: {label}" if label else None
        axes.plot(single.index, single[column], linestyle="none", markerfacecolor="white", gid=gid, **style)
