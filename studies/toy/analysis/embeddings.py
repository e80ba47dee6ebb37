"""A word's contextual states compared with its static embedding: its settings, figure and summary."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import PositiveInt
from lib.results.style import PANELS, STYLE, legend_entry
from lib.results.table import Column, Table


class Settings(AnalysisSettings):
    """A word's contextual states compared with its static embedding, by the classes of the documents."""

    needs_labels: ClassVar[bool] = True

    kind: Literal["embeddings"]
    documents: PositiveInt = 200
    """How many documents of test with the word are read, at most."""
    word: str
    """The word, one token of the vocabulary, in documents of several classes. In byte-level vocabularies a word is one
    token at the beginning of a text and another behind a space; either counts."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw where a word lies in each document, by its class: one panel per model, after one of the static embedding."""
    colours = {label: f"C{place + 1}" for place, label in enumerate(sorted(frame["label"].unique()))}
    static = frame[frame["representation"] == "static"]
    contextual = frame[frame["representation"] == "contextual"]
    panels = [("static embedding, every model", static[static["model"] == next(iter(families))])]
    panels += [(model, contextual[contextual["model"] == model]) for model in families]
    columns = min(PANELS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(2.6 * columns + 1.2, 2.9 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (title, part) in zip(grid, panels, strict=False):
            for label, colour in colours.items():
                points = part[part["label"] == label]
                axes.plot(points["x"], points["y"], "o", color=colour, markersize=4, alpha=0.6, mew=0, gid=label)
            axes.set_title(title, fontsize=8)
            axes.set_xlabel(
                f"silhouette {part['silhouette'].iloc[0]:.2f}, accuracy {100 * part['accuracy'].iloc[0]:.0f} %"
            )
            axes.set(xticks=[], yticks=[])
            axes.margins(0.1)
        tokens = panels[0][1].groupby(["x", "y"]).size()  # of one token of the word, or of two
        for place, number in tokens.items():
            grid[0].plot(*place, "o", color="C0", gid="static")  # over the points of all classes
            these = f"{'all ' if len(tokens) == 1 else ''}{number} documents"
            grid[0].annotate(these, place, (0, 8), textcoords="offset points", ha="center", fontsize=7)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        handles = [
            legend_entry(label, marker="o", linestyle="none", markersize=4, color=colour)
            for label, colour in colours.items()
        ]
        title = f"documents with\n'{frame['word'].iloc[0]}' by class"
        figure.legend(handles=handles, title=title, loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model and representation of the word."""
    columns = {"documents": Column("documents", 0), "silhouette": Column("silhouette", 2)}
    columns["accuracy"] = Column("accuracy [%]", 1)
    parts = frame.groupby(["model", "word", "representation"], sort=False)
    rows = parts.agg(documents=("document", "size"), silhouette=("silhouette", "first"), accuracy=("accuracy", "first"))
    return Table(rows.assign(accuracy=100 * rows["accuracy"]).reset_index(), columns)
