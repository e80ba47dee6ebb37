"""Languages of documents as bars."""

from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from lib.core.settings import Fraction
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, panel_grid
from lib.results.texts import load_texts, main_languages


class Settings(FigureSettings):
    """Shares of the identified languages as bars, the most frequent first, one panel per dataset."""

    about: ClassVar[Topic] = "texts"
    reads: ClassVar[Literal["texts"]] = "texts"

    kind: Literal["languages"]
    threshold: Fraction = Field(0.01, description="Share below which languages are summed up as `other`.")


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw which share of the documents of all splits is in which language (ISO 639)."""
    with matplotlib.style.context(STYLE):
        figure, panels = panel_grid(len(scope.descriptions), PANEL_INCHES)
        for axes, (dataset, file) in zip(panels, scope.descriptions.items(), strict=True):
            axes.set_title(dataset)
            _draw_shares(axes, main_languages(load_texts(file)["language"], settings.threshold))
    return figure


def _draw_shares(axes: Axes, languages: pd.Series) -> None:
    shares = 100 * languages.value_counts(normalize=True)
    shares = shares.sort_index(key=lambda names: names == "other", kind="stable")  # which stands last
    bars = axes.barh(list(map(str, shares.index)), shares, color="C0")
    axes.bar_label(bars, [f"{share:.1f}" for share in shares], padding=2, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="documents [%]", ylabel="language", xlim=(0, 112))  # the longest bar has room for its number
