"""Figures and summary of what attention costs, from the table that was measured."""

import math

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.errors import DataError
from lib.results.figures import MARKERS, STYLE

OURS, EXACT = "ours", "sdpa"
INCHES = (9.6, 4.6)
NEEDED = ["implementation", "mechanism", "length", "batch", "padding", "device", "threads", "median_ms", "peak_mb"]


def attention_time_figure(costs: pd.DataFrame) -> Figure:
    """Draw the time of a forward and backward pass against the length: our mechanisms, and ours beside others'.

    A star marks where a mechanism of ours becomes faster than exact attention.

    Args:
        costs: frame of `attention_cost.csv`; rows without padding are drawn.

    Raises:
        DataError: a column, or exact attention to compare with, is missing.
    """
    ours, peers = _lines(costs, "median_ms")
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_ours(left, ours)
        for name, length in crossovers(costs).items():
            if length is not None:
                colour, _ = _look(name, list(ours))
                left.plot(length, _at(ours[name], length), "*", color=colour, markersize=15, markeredgecolor="white")
        left.set_title("Ours; star: faster than exact from here on")
        left.set_ylabel("forward + backward [ms]")
        _draw_peers(right, ours, peers)
        right.set_title("Ours (solid) beside others (dashed)")
        for axes in (left, right):
            _finish(axes, costs, ours)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,.0f}")
    return figure


def attention_memory_figure(costs: pd.DataFrame) -> Figure:
    """Draw the peak memory of a forward and backward pass against the length: our mechanisms, and ours beside others'.

    Args:
        costs: frame of `attention_cost.csv`; rows without padding are drawn.

    Raises:
        DataError: a column, or exact attention to compare with, is missing.
    """
    ours, peers = _lines(costs, "peak_mb")
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=INCHES, layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw_ours(left, ours)
        left.set_title("Ours")
        left.set_ylabel("peak memory [MiB]")
        _draw_peers(right, ours, peers)
        right.set_title("Ours (solid) beside others (dashed)")
        for axes in (left, right):
            _finish(axes, costs, ours)
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:,.0f}")
    return figure


def crossovers(costs: pd.DataFrame) -> dict[str, float | None]:
    """Return from which length on each mechanism of ours is faster than exact attention, without padding.

    Times are joined by lines between logarithms. The shortest length that was measured means: there, or before. None
    means: nowhere in the lengths measured.

    Raises:
        DataError: a column, or exact attention to compare with, is missing.
    """
    ours, _ = _lines(costs, "median_ms")
    found = {}
    for name, line in ours.items():
        if name.startswith(EXACT) or "+" in name:
            continue
        ratio = (line / ours[EXACT]).map(math.log)
        found[name] = None
        if ratio.iloc[-1] < 0:
            slower = ratio[ratio >= 0]
            found[name] = float(ratio.index[0])
            if len(slower):
                before, after = slower.index[-1], ratio.index[list(ratio.index).index(slower.index[-1]) + 1]
                share = ratio[before] / (ratio[before] - ratio[after])
                found[name] = before * (after / before) ** share
    return found


def cost_summary(costs: pd.DataFrame) -> str:
    """Return milliseconds by length, kept bytes as a multiple of exact attention's, and crossovers, as Markdown.

    Raises:
        DataError: a column, or exact attention to compare with, is missing.
    """
    plain = _without_padding(costs)
    lengths = sorted(plain["length"].unique())
    table = plain.pivot_table(index=["implementation", "mechanism"], columns="length", values="median_ms", sort=False)
    kept = plain.pivot_table(index=["implementation", "mechanism"], columns="length", values="bytes_kept", sort=False)
    crossing = crossovers(costs)
    exact_bytes = kept.loc[(OURS, EXACT), lengths[0]]
    rows = []
    for (implementation, mechanism), times in table.iterrows():
        length = crossing.get(mechanism) if implementation == OURS else None
        since = "-" if length is None else f"{'<= ' if length == lengths[0] else ''}{length:,.0f}"
        rows.append(
            {
                "implementation": implementation,
                "mechanism": mechanism,
                **{f"{n:,} [ms]": "-" if pd.isna(times[n]) else f"{times[n]:,.0f}" for n in lengths},
                "kept": f"{kept.loc[(implementation, mechanism), lengths[0]] / exact_bytes:.2f}x",
                "faster than exact from": since,
            }
        )
    first = plain.iloc[0]
    note = (
        f"Median of a forward and backward pass over {first['batch'] * first['length']:,} tokens in sequences of the "
        f"given length, {first['device']}, {first['dtype']}, {first['threads']} thread(s); kept: bytes kept for the "
        f"backward pass at {lengths[0]} tokens, beside exact attention's."
    )
    return f"{pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)}\n\n{note}\n"


def _without_padding(costs: pd.DataFrame) -> pd.DataFrame:
    if missing := [column for column in NEEDED if column not in costs]:
        raise DataError(f"the table of attention's costs has no column {', '.join(missing)}. Measure it again.")
    plain = costs[costs["padding"] == "none"]
    if not ((plain["implementation"] == OURS) & (plain["mechanism"] == EXACT)).any():
        raise DataError(
            f"the table of attention's costs has no row of {OURS} {EXACT} without padding, which all others are "
            f"compared with. Keep the mechanism {EXACT} in the configuration, and measure again."
        )
    return plain


def _lines(costs: pd.DataFrame, column: str) -> tuple[dict[str, pd.Series], dict[tuple[str, str], pd.Series]]:
    """Return `column` by length: of our mechanisms by name, and of others by implementation and name."""
    plain = _without_padding(costs)
    lines = {
        key: rows.set_index("length")[column].sort_index()
        for key, rows in plain.groupby(["implementation", "mechanism"], sort=False)
    }
    ours = {name: line for (implementation, name), line in lines.items() if implementation == OURS}
    return ours, {key: line for key, line in lines.items() if key[0] != OURS}


def _look(name: str, names: list[str]) -> tuple[str, str]:
    """Return colour, of the family, and marker, of the member."""
    families = list(dict.fromkeys(other.split("-")[0] for other in names))
    members = [other for other in names if other.split("-")[0] == name.split("-")[0]]
    return f"C{families.index(name.split('-')[0])}", MARKERS[members.index(name) % len(MARKERS)]


def _draw_ours(axes: Axes, ours: dict[str, pd.Series]) -> None:
    for name, line in ours.items():
        if "+" in name:
            continue
        colour, marker = _look(name, list(ours))
        axes.plot(line.index, line, color=colour, marker=marker, markersize=4, linewidth=1.2, label=name, gid=name)


def _draw_peers(axes: Axes, ours: dict[str, pd.Series], peers: dict[tuple[str, str], pd.Series]) -> None:
    for (implementation, name), line in peers.items():
        colour, marker = _look(name, list(ours))
        look = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2}
        axes.plot(ours[name].index, ours[name], **look)
        label = f"{name}: {implementation}"
        axes.plot(line.index, line, linestyle="--", markerfacecolor="white", label=label, gid=label, **look)


def _finish(axes: Axes, costs: pd.DataFrame, ours: dict[str, pd.Series]) -> None:
    lengths = list(ours[EXACT].index)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    row = costs.iloc[0]
    axes.set_xlabel(f"tokens a sequence, {row['batch'] * row['length']:,} in all ({row['device']})")
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1), fontsize=7)


def _at(line: pd.Series, length: float) -> float:
    """Return the value of `line` at `length`, on the straight line between logarithms."""
    after = next(n for n in line.index if n >= length)
    before = line.index[max(0, list(line.index).index(after) - 1)]
    if length in (after, before):
        return float(line[after])
    share = math.log(length / before) / math.log(after / before)
    return math.exp((1 - share) * math.log(line[before]) + share * math.log(line[after]))
