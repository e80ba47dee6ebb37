"""Figures of what attention costs, from the rows without padding of the table `attention_cost` that was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from lib.measure.crossovers import BY_TRITON, EXACT, OURS, attention_rows, crossovers
from lib.results.style import BASELINE_COLOUR, MARKERS, PANELS, STYLE, panel_grid

INCHES = (3.2, 3.0)
Rows = Mapping[tuple[str, str], pd.DataFrame]


def attention_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time of a forward and backward pass against the length, a panel for each family of mechanisms.

    A star marks the first length from which on a mechanism of ours is faster than exact attention. Markers of times
    that were measured once are hollow, and counted. Where a mechanism has Triton kernels, its time with torch's
    operations is left out.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    rows = _as_chosen(attention_rows(costs))
    figure, panels = _figure(costs, rows, "median_ms", "forward + backward [ms]", base=10, once=True)
    for name, found in crossovers(costs).items():
        if found is not None and (OURS, name) in rows:
            height = rows[OURS, name]["median_ms"][found.faster]
            colour, _ = _look(name, rows)
            panels[_family(name)].plot(
                found.faster, height, "*", color=colour, markersize=13, markeredgecolor="white", zorder=3
            )
    drawn = pd.concat(rows.values())["repetitions"]
    once = f"hollow marker: measured once ({(drawn == 1).sum()} of {len(drawn)} times drawn)"
    figure.supxlabel(f"{_axis(costs)}\nstar: faster than exact attention from here on; {once}", fontsize=8)
    return figure


def attention_memory_figure(costs: pd.DataFrame) -> Figure:
    """Draw the peak memory of a forward and backward pass against the length, a panel for each family of mechanisms.

    Raises:
        DataError: exact attention to compare with is missing.
    """
    rows = _as_chosen(attention_rows(costs))
    figure, _ = _figure(costs, rows, "peak_mb", "peak memory [MiB]", base=2, once=False)
    figure.supxlabel(f"{_axis(costs)}\nevery point: one pass", fontsize=8)
    return figure


def _as_chosen(rows: Rows) -> Rows:
    """Return rows without those by torch of mechanisms of ours that have some by Triton, which runs take on a GPU."""
    return {(owner, name): group for (owner, name), group in rows.items() if (owner, name + BY_TRITON) not in rows}


def _figure(
    costs: pd.DataFrame, rows: Rows, column: str, label: str, *, base: int, once: bool
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with `column` against the length, and its panels by family: ours solid, others dashed."""
    families = list(dict.fromkeys(_family(name) for _, name in rows))
    lengths = list(rows[OURS, EXACT].index)
    with matplotlib.style.context(STYLE):
        figure, axes = panel_grid(len(families), INCHES)
        panels = dict(zip(families, axes, strict=True))
        for family, panel in panels.items():
            if family != EXACT:
                panel.plot(lengths, rows[OURS, EXACT][column], color=BASELINE_COLOUR, linewidth=1, zorder=1.5)
            panel.set_title(family if family != EXACT else f"{EXACT} (grey in the other panels)")
        for (owner, name), group in rows.items():
            if owner == OURS and ("+" not in name or any(key[1] == name for key in rows if key[0] != OURS)):
                _draw(panels[_family(name)], group, column, _look(name, rows), name, once=once)
            elif owner != OURS:
                look_of_ours = _look(name + BY_TRITON if (OURS, name + BY_TRITON) in rows else name, rows)
                _draw(panels[_family(name)], group, column, look_of_ours, f"{name}: {owner}", once=once, linestyle="--")
        for number, panel in enumerate(axes):
            panel.sharex(axes[0])
            panel.sharey(axes[0])
            if number % PANELS == 0:
                panel.set_ylabel(label)
            panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), fontsize=7)
        axes[0].set_xscale("log", base=2)
        axes[0].set_xticks(lengths, [_short(length) for length in lengths])
        axes[0].minorticks_off()
        axes[0].set_yscale("log", base=base)
        axes[0].yaxis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 else (1,)))
        axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        axes[0].yaxis.set_minor_formatter(NullFormatter())
    return figure, panels


def _short(length: int) -> str:
    return f"{length // 1024}k" if length % 1024 == 0 else f"{length:,}"


def _axis(costs: pd.DataFrame) -> str:
    first = costs.iloc[0]
    tokens = f"tokens a sequence (k: 1,024), {first['batch'] * first['length']:,} in all ({first['device']})"
    return f"{tokens}; ours solid, others dashed"


def _family(name: str) -> str:
    return name.removesuffix(BY_TRITON).split("+")[0].split("-")[0]


def _look(name: str, rows: Rows) -> tuple[str, str]:
    """Return colour and marker of a mechanism of ours within its family."""
    members = [other for owner, other in rows if owner == OURS and _family(other) == _family(name)]
    place = members.index(name)
    return f"C{place}", MARKERS[place % len(MARKERS)]


def look(name: str, names: Sequence[str]) -> tuple[str, str]:
    """Return colour, of the family, and marker, of the member, of one of `names`."""
    family = name.split("-")[0]
    families = list(dict.fromkeys(other.split("-")[0] for other in names))
    members = [other for other in names if other.split("-")[0] == family]
    return f"C{families.index(family)}", MARKERS[members.index(name) % len(MARKERS)]


def _draw(
    axes: Axes,
    group: pd.DataFrame,
    column: str,
    look: tuple[str, str],
    label: str,
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
        gid = f"measured once: {label}"
        axes.plot(single.index, single[column], linestyle="none", markerfacecolor="white", gid=gid, **style)
