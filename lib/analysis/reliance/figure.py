"""What is left of predictions without some words, drawn and summed up, from the table of `computation`."""

from collections.abc import Mapping
from dataclasses import dataclass

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.analysis.reliance.page import MEASURES, examples
from lib.results.style import BASELINE_COLOUR, LINES, MARKERS, STYLE
from lib.results.table import Column, Table

PANELS = (("f1", "removed"), ("f1", "kept"), ("probability", "removed"), ("probability", "kept"))
QUANTITIES = {"f1": "macro-F1 [%]", "probability": "probability of the\npredicted class [%]"}
CHANGES = {"removed": "strongest words removed", "kept": "strongest words alone"}
PANEL = (2.5, 2.3)
"""Inches."""


@dataclass(frozen=True)
class TableWithExamples(Table):
    """A table whose page also shows documents with their words shaded."""

    examples: str = ""
    """HTML below the table."""

    def to_html(self) -> str:
        """See `Table.to_html`."""
        return f"{super().to_html()}{self.examples}\n"


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw macro-F1 and the probability of the predicted class against the number of words removed, or kept alone.

    One row per model; bands are intervals of 95 % over documents, the dashed line is the whole document.
    """
    curves = frame[frame["part"] == "curve"]
    amounts = sorted(curves["amount"].dropna().unique(), key=lambda amount: (amount >= 1, amount))
    measures = [measure for measure in MEASURES if measure in set(curves["measure"])]
    with matplotlib.style.context(STYLE):
        size = (PANEL[0] * len(PANELS) + 1.6, PANEL[1] * len(families) + 0.3)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(families), len(PANELS), squeeze=False, sharex=True, sharey=True)
        for row, (line, model) in enumerate(zip(grid, families, strict=True)):
            for axes, (quantity, change) in zip(line, PANELS, strict=True):
                now = curves[(curves["model"] == model) & (curves["quantity"] == quantity)]
                whole = 100 * now.loc[now["measure"] == "none", "value"].iloc[0]
                axes.axhline(whole, color="0.35", linestyle="--", linewidth=0.8, gid="whole document")
                for place, measure in enumerate(measures):
                    part = now[(now["measure"] == measure) & (now["change"] == change)].set_index("amount")
                    if len(part):
                        _draw_line(axes, 100 * part.loc[amounts, ["value", "low", "high"]], measure, place)
                axes.set_xticks(range(len(amounts)), [_named(amount) for amount in amounts])
                axes.set(ylim=(0, 103), ylabel=QUANTITIES[quantity])
                if row == 0:
                    axes.set_title(CHANGES[change], fontsize=8)
                if row == len(families) - 1:
                    axes.set_xlabel("words")
            line[0].annotate(model, (0, 1), (-30, 14), xycoords="axes fraction", textcoords="offset points", fontsize=8)
        found = {
            handle.get_label(): handle for axes in grid.flat for handle in axes.lines if handle.get_gid() in MEASURES
        }
        figure.legend(handles=[found[MEASURES[each]] for each in measures], loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> TableWithExamples:
    """Return one row per model and measure: mean falls of the probability, and macro-F1 by amount."""
    curves = frame[frame["part"] == "curve"]
    amounts = sorted(curves["amount"].dropna().unique(), key=lambda amount: (amount >= 1, amount))
    rows = []
    for (model, measure), part in curves.groupby(["model", "measure"], sort=False):
        row = {"model": model, "words chosen by": MEASURES.get(measure, "whole document")}
        means = part[part["amount"].isna()]
        if measure == "none":
            whole = means.set_index("quantity")
            row |= {name: 100 * whole.loc[name, "value"] for name in ("accuracy", "f1")}
            rows.append(row)
            continue
        for change, name in (("removed", "comprehensiveness"), ("kept", "sufficiency")):
            now = means[means["change"] == change].set_index("quantity")
            row[name] = _with_interval(now, "fall")
        now = means[means["change"] == "removed"].set_index("quantity")
        row |= {f"minus {other}": _with_interval(now, f"fall_minus_{other}") for other in ("random", "tfidf")}
        for change in ("removed", "kept"):
            scores = part[(part["change"] == change) & (part["quantity"] == "f1")].set_index("amount")["value"]
            row[f"F1 {change}"] = " ".join(f"{100 * scores[amount]:.0f}" for amount in amounts)
        shared = part[part["quantity"] == "shared_with_tfidf"].set_index("amount")
        if len(shared):
            row["shared with tfidf"] = " ".join(f"{100 * shared.loc[amount, 'value']:.0f}" for amount in amounts)
        rows.append(row)
    listed = ", ".join(_named(amount) for amount in amounts)
    note = (
        f"Documents: {curves['documents'].max():.0f}. F1 and words shared with TF-IDF in % at {listed} words. "
        "Comprehensiveness and sufficiency: how far the probability of the predicted class falls, in points, without "
        "the strongest words and with them alone, as means over these amounts; `minus random` and `minus tfidf`: "
        "comprehensiveness less that of random words, and of TF-IDF's strongest ones. In brackets: intervals of 95 % "
        "over documents, for the given model."
    )
    columns = {"accuracy": Column("accuracy [%]", 1), "f1": Column("F1 [%]", 1)}
    order = [
        "model", "words chosen by", "accuracy", "f1", "comprehensiveness", "minus random", "minus tfidf", "sufficiency",
        "F1 removed", "F1 kept", "shared with tfidf",
    ]  # fmt: skip
    shown = pd.DataFrame(rows)
    return TableWithExamples(shown[[name for name in order if name in shown]], columns, note, examples=examples(frame))


def _with_interval(rows: pd.DataFrame, quantity: str) -> str | None:
    """Return a quantity in points with its interval; None if there is none."""
    if quantity not in rows.index:
        return None
    value, low, high = (100 * rows.loc[quantity, name] for name in ("value", "low", "high"))
    return f"{value:z.1f} [{low:z.1f}, {high:z.1f}]"


def _draw_line(axes: Axes, rows: pd.DataFrame, measure: str, place: int) -> None:
    """Draw one measure with its band; random words are grey."""
    colour = BASELINE_COLOUR if measure == "random" else f"C{place}"
    places = range(len(rows))
    axes.fill_between(places, rows["low"], rows["high"], color=colour, alpha=0.12, linewidth=0)
    axes.plot(
        places, rows["value"], color=colour, marker=MARKERS[place], markersize=4, linewidth=1.2,
        linestyle=LINES[place % len(LINES)], label=MEASURES[measure], gid=measure,
    )  # fmt: skip


def _named(amount: float) -> str:
    return f"{100 * amount:g} %" if amount < 1 else f"{amount:g}"
