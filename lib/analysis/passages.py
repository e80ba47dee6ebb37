"""Passages that decide a class: settings, figure and summary of how far they do."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import Few, PositiveInt
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers
from lib.results.table import Column, Table, interval_columns


class Settings(AnalysisSettings):
    """How far the passages that `scripts/tools/predict.py` names decide the class: without them, and by them alone."""

    needs_single_tokens: ClassVar[bool] = False
    needs_task: ClassVar[tuple[str, ...]] = ("sequence_classification",)
    needs_texts: ClassVar[bool] = True
    text_baseline: ClassVar[str | None] = "tfidf"

    kind: Literal["passages"]
    documents: PositiveInt = Field(200, ge=2)
    """How many documents of test are read, at most: a draw by the seed."""
    count: PositiveInt = 3
    """Passages of a document, at most."""
    draws: Few = 5
    """Random passages of a document, of the same lengths; their results are averaged."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw both measures with their intervals, for the passages of each model and for random ones."""
    colours = {model: colour for model, (colour, _) in colours_and_markers(families).items()}
    measures = frame[frame["of"] != "difference"].groupby("measure")
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(2 * PANEL_INCHES[0], 0.5 * len(families) + 1), layout="constrained")
        for axes, (measure, rows) in zip(figure.subplots(1, 2, sharey=True), measures, strict=True):
            names, shown = rows["model"] + ", " + rows["of"], rows["model"].map(colours)
            axes.hlines(names, rows["low"], rows["high"], colors=shown)
            axes.scatter(rows["value"], names, c=shown)
            axes.set(xlabel=f"{measure} [%]", ylim=(2 * len(families) - 0.5, -0.5))
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model and measure for its passages, for random ones, and for the difference."""
    fall, words = Column("fall of the probability [%]", 2), Column("words in passages [%]", 1)
    columns = {"value": fall, **interval_columns(0.95), "words": words}
    note = f"Means over {frame['documents'].iloc[0]} documents, of the probability of the predicted class."
    return Table(frame[["model", "measure", "of", *columns]], columns, note)
