"""Which words carry a prediction: its settings, figure and summary."""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import Few, FewOrZero, PositiveInt, Size
from lib.results.style import BASELINE_COLOUR, LINES, MARKERS, STYLE
from lib.results.table import Column, Table

Measure = Literal["gradient", "words", "sentences"]
Share = Annotated[float, Field(gt=0, lt=1)]


class Settings(AnalysisSettings):
    """The words that a prediction relies on, and how it changes without the strongest ones or with them alone."""

    needs_labels: ClassVar[bool] = True
    needs_single_tokens: ClassVar[bool] = False
    needs_task: ClassVar[tuple[str, ...]] = ("sequence_classification",)
    text_baseline: ClassVar[str | None] = "tfidf"

    kind: Literal["reliance"]
    documents: PositiveInt = Field(100, ge=2)
    """How many documents of test are read, at most: a draw by the seed."""
    length: Size = Field(256, ge=3)
    """Tokens that longer documents are cut to. With `words` among the measures, the time grows with its square."""
    measures: list[Measure] = Field(["gradient", "words", "sentences"])
    """How the strength of a word is measured: `gradient` times input; the change when the word is occluded (`words`),
    or its sentence (`sentences`). The weights of the study's TF-IDF row, if it has one, and a random order are shown
    for comparison."""
    occlude: Literal["mask", "remove"] = "mask"
    """Tokens of a word that is taken away become the mask token, or leave the document."""
    amounts: list[Size | Share] = Field([0.01, 0.05, 0.1, 0.2, 0.5], min_length=1)
    """How many of a document's strongest words are taken away, or kept alone: a number of words, or a share of them,
    below 1 (at least one word)."""
    draws: Few = 3
    """Random orders of a document's words; their results are averaged."""
    examples: FewOrZero = 4
    """Documents that the report shows with their words shaded."""


PAGE_STYLE = (
    ".words {max-width: 60em; line-height: 1.9} .words span {padding: .1em 0; border-radius: .2em} "
    ".words .for {text-decoration: underline solid; text-underline-offset: .25em} "
    ".words .against {text-decoration: underline dotted; text-underline-offset: .25em} "
    ".words .strong {font-weight: bold} "
    "@media print {.words span {-webkit-print-color-adjust: exact; print-color-adjust: exact}} "
    "h2 {font-size: 1.1em; margin-top: 2em} h3 {font-size: 1em; font-weight: normal; color: #444; margin: 1em 0 .2em}"
)
FOR, AGAINST = "0, 114, 178", "230, 159, 0"
"""Blue and orange as red, green and blue: distinct for all kinds of colour vision (Okabe and Ito 2008)."""
DARKEST = 0.45
"""Opacity of the strongest word's shade; black text is legible on it."""
MARKED, STRONG = 0.2, 0.6
"""A word is underlined, and bold, from these shares of the greatest strength: for print without colours."""
MEASURES = {
    "gradient": "gradient times input",
    "words": "occlusion of words",
    "sentences": "occlusion of sentences",
    "tfidf": "weights of TF-IDF",
    "random": "random order",
}
"""What figures and pages call the measures."""


def examples(frame: pd.DataFrame) -> str:
    """Return the documents of part `word` as HTML, once per model and measure; nothing if there are none."""
    words = frame[frame["part"] == "word"]
    if words.empty:
        return ""
    legend = (
        f"<span class='for' style='background: rgba({FOR}, {DARKEST})'>Blue, underlined</span>: speaks for the "
        f"prediction. <span class='against' style='background: rgba({AGAINST}, {DARKEST})'>Orange, dotted</span>: "
        "speaks against it. The darker, the stronger, within a document and a measure; the strongest are bold."
    )
    parts = [f"<style>{PAGE_STYLE}</style><h2>Examples</h2><p class='words'>{legend}</p>"]
    for name, document in words.groupby("document", sort=False):
        parts.append(f"<h2>{html.escape(str(name))}, labelled {html.escape(str(document['label'].iloc[0]))}</h2>")
        for (model, measure), part in document.groupby(["model", "measure"], sort=False):
            about = (
                f"{model}: {part['prediction'].iloc[0]} ({100 * part['probability'].iloc[0]:.0f} %), "
                f"{MEASURES[measure]}"
            )
            parts.append(f"<h3>{html.escape(about)}</h3><p class='words'>{_shaded(part)}</p>")
    return "\n".join(parts)


def _shaded(words: pd.DataFrame) -> str:
    """Return the words of a document in their order, each with its shade."""
    words = words.sort_values("place")
    greatest = words["value"].abs().max()
    found = []
    for word, value in zip(words["word"], words["value"], strict=True):
        text = html.escape(str(word))
        if pd.isna(value) or not greatest or abs(value) < 0.005 * greatest:
            found.append(text)
            continue
        share = abs(value) / greatest
        classes = ["for" if value > 0 else "against"] if share >= MARKED else []
        classes += ["strong"] if share >= STRONG else []
        named = f" class='{' '.join(classes)}'" if classes else ""
        colour = f"rgba({FOR if value > 0 else AGAINST}, {DARKEST * share:.2f})"
        found.append(f"<span{named} style='background: {colour}' title='{value:+.2f}'>{text}</span>")
    return " ".join(found)


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
