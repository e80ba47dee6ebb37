"""Which attention heads point from a word to the word that it belongs to: its settings, figure and summary."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.analysis.table import TIMES
from lib.backbones.settings import Ability
from lib.core.settings import Size
from lib.results.style import BASELINE_COLOUR, PANEL_INCHES, STYLE, colours_and_markers, draw_points, legend_entry
from lib.results.table import Column, Table

LONGEST = 64
"""Tokens that a generated sentence has at most, by an ordinary vocabulary."""
NAMES = {
    "determiner": "determiner to noun",
    "adjective": "adjective to noun",
    "subject": "subject to verb",
    "pronoun": "pronoun to antecedent",
    "name": "name to the same name",
}
"""The relations, and what figures and tables call them."""


class Settings(AnalysisSettings):
    """Which attention heads point from a word to the word that it belongs to, in generated English sentences."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["relations"]
    sentences: Size = Field(600, ge=30)
    """Generated sentences. Half of them choose heads and offsets, the others score them."""

    @property
    def tokens_needed(self) -> int:
        """See the base."""
        return LONGEST


SPREAD = 0.5
"""Share of a relation's height that its models take."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw how often the chosen head of each model is right, and the chosen offset, with intervals of 95 %.

    Hollow markers are drawn weights, filled ones trained weights.
    """
    styles = colours_and_markers(families)
    chosen = frame[frame["chosen"]]
    rows = len(NAMES) * (2 * len(styles) + 1)
    with matplotlib.style.context(STYLE):
        size = (1.6 * PANEL_INCHES[0] + 1.6, max(PANEL_INCHES[1], 0.16 * rows + 1))
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        lines = [(model, when) for model in styles for when in TIMES]
        for place, relation in enumerate(NAMES):
            now = chosen[chosen["relation"] == relation]
            offset = 100 * now[now["by"] == "offset"].iloc[0][["accuracy", "low", "high"]].astype(float)
            ends = [offset["accuracy"] - offset["low"]], [offset["high"] - offset["accuracy"]]
            draw_points(
                axes, offset["accuracy"], place - SPREAD / 2, f"{relation}, offset", xerr=ends, color=BASELINE_COLOUR,
                marker="|", markersize=9,
            )  # fmt: skip
            for number, (model, when) in enumerate(lines, start=1):
                colour, marker = styles[model]
                of_head = now[(now["by"] == "head") & (now["model"] == model) & (now["when"] == when)]
                head = 100 * of_head.iloc[0][["accuracy", "low", "high"]].astype(float)
                draw_points(
                    axes, head["accuracy"], place - SPREAD / 2 + SPREAD * number / len(lines),
                    f"{relation}, {model}, {when}",
                    xerr=([head["accuracy"] - head["low"]], [head["high"] - head["accuracy"]]), color=colour,
                    marker=marker, markersize=4.5, markerfacecolor=colour if when == "after" else "white",
                )  # fmt: skip
        axes.set_yticks(range(len(NAMES)), list(NAMES.values()))
        axes.set(ylim=(len(NAMES) - 0.5, -0.6), xlim=(0, 100), xlabel="pairs whose related word is found [%]")
        handles = [
            legend_entry(model, color=colour, marker=marker, markersize=4.5, linewidth=1)
            for model, (colour, marker) in styles.items()
        ]
        handles += [
            legend_entry(label, color="0.35", marker="o", linestyle="none", markersize=4.5, markerfacecolor=fill)
            for label, fill in ((TIMES["before"], "white"), (TIMES["after"], "0.35"))
        ]
        handles.append(legend_entry("best fixed offset", color=BASELINE_COLOUR, marker="|", markersize=9, linewidth=1))
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model, state of the training and relation: the chosen head and the chosen offset."""
    key = ["model", "when", "relation"]
    chosen = frame[frame["chosen"]]
    offsets = chosen[chosen["by"] == "offset"].set_index(key)
    heads = chosen[chosen["by"] == "head"].set_index(key)
    shown = pd.DataFrame(
        {
            "chosen_head": heads["layer"].map("{:.0f}".format) + "-" + heads["head"].map("{:.0f}".format)
            + heads["direction"].map({"attends": "", "is attended": ", reversed"}),
            "accuracy": 100 * heads["accuracy"],
            "interval": [_interval(low, high) for low, high in zip(heads["low"], heads["high"], strict=True)],
            "offset": offsets["offset"].map("{:+.0f}".format),
            "its_accuracy": 100 * offsets["accuracy"],
            "difference": 100 * heads["difference"],
            "its_interval": [
                _interval(low, high)
                for low, high in zip(heads["difference_low"], heads["difference_high"], strict=True)
            ],
            "p": heads["p"].map(lambda p: "< 0.001" if p < 0.001 else f"{p:.3f}"),
            "pairs": heads["pairs"],
        }
    ).reset_index()  # fmt: skip
    columns = {
        "accuracy": Column("accuracy [%]", 1),
        "its_accuracy": Column("of the offset [%]", 1),
        "difference": Column("difference [points]", 1, signed=True),
        "pairs": Column("pairs", 0),
    }
    names = {"its_interval": "interval of the difference", "p": "p (Holm)", "interval": "interval (95 %)"}
    note = (
        "Head (layer-head, counted from 0) and offset (words) were chosen on other sentences. Reversed: the related "
        "word attends to the word, not the word to it. Intervals are over sentences, for the given model. p (Holm): of "
        f"no difference, corrected for the {shown['relation'].nunique()} relations of a model, before and after "
        "training each by itself."
    )
    relations = shown["relation"].map(NAMES)
    return Table(shown.assign(relation=relations).rename(columns=names), columns, note)


def _interval(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f}"
