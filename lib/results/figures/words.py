"""How long documents are, in words: histograms."""

from typing import Annotated, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, draw_histogram, label_histogram, panel_grid
from lib.results.texts import load_texts

BINS = 40


class Settings(FigureSettings):
    """Histograms of the documents' words, one line per split, one panel per dataset."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["words"]
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.99, description="Share of a dataset's documents, the shortest first, that the axis shows."
    )


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw which share of the documents of each split has how many words."""
    with matplotlib.style.context(STYLE):
        figure, panels = panel_grid(len(scope.descriptions), PANEL_INCHES)
        for axes, (dataset, file) in zip(panels, scope.descriptions.items(), strict=True):
            axes.set_title(dataset)
            _draw_splits(axes, load_texts(file), settings.share)
    return figure


def _draw_splits(axes: Axes, texts: pd.DataFrame, share: float) -> None:
    longest = int(texts["words"].quantile(share, interpolation="higher"))
    width = -(-(longest + 1) // BINS)
    edges = np.arange(-0.5, longest + width + 0.5, width)
    for place, (split, words) in enumerate(texts.groupby("split", sort=False, observed=True)["words"]):
        beyond = (words > edges[-1]).sum()
        label = f"{split}: {len(words):,} documents" + (f", {beyond:,} longer" if beyond else "")
        draw_histogram(axes, words, edges, place, str(split), label)
    label_histogram(axes, "words", "word", width)
