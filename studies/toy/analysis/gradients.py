"""How much of a gradient arrives from how far: its settings, figure and summary."""

from collections.abc import Mapping
from typing import Literal

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.analysis.table import TIMES
from lib.core.settings import PositiveInt, Size
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers
from lib.results.table import Table


class Settings(AnalysisSettings):
    """How much of a gradient arrives from how far, as the model was drawn and as it was trained."""

    kind: Literal["gradients"]
    documents: PositiveInt = 200
    """How many sequences are read, at most."""
    tokens: Literal["random", "documents"] = "random"
    """Sequences of tokens drawn from the vocabulary, or the last tokens of those documents of test that have `length`.
    """
    length: Size = Field(256, ge=3)
    """Tokens of a sequence."""

    @property
    def tokens_needed(self) -> int:
        """See the base."""
        return self.length


FLOOR = 1e-12
"""Share of a gradient; smaller ones are drawn on the lower edge."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw the gradient against the distance, as a share of the last token's own, before and after training."""
    frame = frame[frame["distance"] > 0]
    frame = frame.assign(relative=frame["relative"].clip(lower=FLOOR))  # zeros, too, which have no logarithm
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(2 * width + 1.2, height), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (when, title) in zip(panels, TIMES.items(), strict=True):
            for model, (colour, marker) in colours_and_markers(families).items():
                line = frame[(frame["model"] == model) & (frame["when"] == when)]
                axes.plot(
                    line["distance"], line["relative"], color=colour, marker=marker, markersize=4, linewidth=1.2,
                    label=model, gid=model,
                )  # fmt: skip
            axes.set_title(title)
            axes.set_xlabel("distance from the last token [tokens]")
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.xaxis.set_major_formatter("{x:,.0f}")
        panels[0].set_ylim(max(FLOOR, min(0.1, frame["relative"].min() / 2)), max(1, 2 * frame["relative"].max()))
        panels[0].set_ylabel("gradient, share of the last token's own")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model before and after training, one column per distance."""
    rows = frame.assign(relative=frame["relative"].map("{:.1e}".format))
    wide = rows.pivot(index=["model", "when"], columns="distance", values="relative")
    wide = wide.reindex(rows[["model", "when"]].drop_duplicates())
    wide.columns = [f"distance {distance}" for distance in wide.columns]
    return Table(wide.reset_index(), {}, "Gradients as shares of the one at distance 0, of the last token itself.")
