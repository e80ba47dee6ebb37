"""The cost of a prediction: its settings, figure and summary."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.core.settings import NonNegativeFloat, PositiveInt, check
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers
from lib.results.table import Column, Table

FEWEST = 100
"""Documents that latencies need; one in a hundred is above the 99th percentile."""


class Settings(AnalysisSettings):
    """The cost of a prediction: documents per second and core, the time of one document, and a price."""

    needs_single_tokens: ClassVar[bool] = False
    needs_task: ClassVar[tuple[str, ...]] = ("sequence_classification", "multi_label_classification")
    needs_texts: ClassVar[bool] = True
    text_baseline: ClassVar[str | None] = "tfidf"

    kind: Literal["prediction_cost"]
    documents: PositiveInt = Field(200, ge=FEWEST)
    """How many documents of test are predicted, at most: a draw by the seed."""
    price_per_hour: NonNegativeFloat | None = None
    """Price of an hour of one core, in `currency`; a column then shows that of a million documents."""
    currency: str | None = None
    """Currency of the price."""

    @check
    def _a_price_has_a_currency(self) -> Iterator[str]:
        if (self.currency is None) != (self.price_per_hour is None):
            given, missing = ("price_per_hour", "currency") if self.currency is None else ("currency", "price_per_hour")
            yield f"{missing}: missing, but {given} is given. Give both, or leave both out"


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw the documents per second and core of each model, and the time of one document: median to 99th percentile."""
    found = frame.set_index("model").loc[list(families)]
    colours = [colour for colour, _ in colours_and_markers(families).values()]
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(2 * width, max(height, 0.3 * len(found) + 1)), layout="constrained")
        speeds, latencies = figure.subplots(1, 2, sharey=True)
        bars = speeds.barh(found.index, found["documents_per_second"], color=colours)
        speeds.bar_label(bars, [f"{speed:,.3g}" for speed in found["documents_per_second"]], padding=2, fontsize=7)
        for place, (model, row) in enumerate(found.iterrows()):
            ends = row[["latency_p50_ms", "latency_p99_ms"]].astype(float)
            latencies.plot(ends, [place] * 2, color=colours[place], marker="|", gid=f"{model}, latency")
        speeds.set(xlabel="documents per second and core", xscale="log")
        speeds.margins(x=0.15)
        latencies.set(xlabel="one document: median to 99th percentile [ms]", xscale="log")
        speeds.invert_yaxis()
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model, with the machine and the day of the measurement in the note."""
    columns = {
        "documents_per_second": Column("documents per second and core", 1),
        "latency_p50_ms": Column("one document, median [ms]", 2),
        "latency_p99_ms": Column("one document, 99th percentile [ms]", 2),
    }
    note = "Measured on {processor}, one thread, {measured}, on {documents} documents".format(**frame.iloc[0])
    if "price_per_million" in frame:
        columns["price_per_million"] = Column("a million documents [{currency}]".format(**frame.iloc[0]), 4)
        note += "; a core costs {price_per_hour:g} {currency} per hour".format(**frame.iloc[0])
    return Table(frame[["model", *columns]], columns, f"{note}.")
