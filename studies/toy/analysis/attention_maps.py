"""Attention maps of one document, before and after training: settings, figure and summary."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from lib.analysis.settings import AnalysisSettings
from lib.analysis.table import TIMES
from lib.backbones.settings import Ability
from lib.core.settings import NonNegativeInt
from lib.results.style import STYLE
from lib.results.table import Column, Table


class Settings(AnalysisSettings):
    """Attention maps of one document, with initial and with trained weights."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["attention_maps"]
    document: NonNegativeInt = 0
    """Which document of test (of a corpus: held-out), counted from 0."""


MAP = ["model", "layer", "head"]
TICKS = 40
"""Tokens that an axis of a map names, at most; of more, every second, third, ... one."""
TOKEN_INCHES = 0.13
MAP_INCHES = 1.3
"""Height and width of a map: so much per token, and at least so much."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw the attention maps of a document: above before, below after training, all with one scale of colours.

    If every model has a single map, the columns are models; else each model has two rows of its own, and the columns
    are its layers and heads.
    """
    maps = dict(iter(frame.groupby([*MAP, "when"], sort=False)))
    of_models = [[key for key in dict.fromkeys(key[:3] for key in maps) if key[0] == model] for model in families]
    bands = of_models if any(len(band) > 1 for band in of_models) else [[key for band in of_models for key in band]]
    side = max(MAP_INCHES, TOKEN_INCHES * min(frame["query"].max() + 1, TICKS))
    columns, rows = max(map(len, bands)), 2 * len(bands)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=((side + 0.6) * columns + 1, (side + 0.8) * rows), layout="compressed")
        grid = figure.subplots(rows, columns, squeeze=False)
        for place, band in enumerate(bands):
            for line, (when, label) in zip(grid[2 * place :], TIMES.items(), strict=False):
                for axes, key in zip(line, band, strict=False):
                    image = _draw_map(axes, maps[(*key, when)], frame["weight"].max())
                    if when == "before":
                        axes.set_title(f"{key[0]}\nlayer {key[1]}, head {key[2]}", fontsize=8)
                    else:
                        axes.set_xlabel("key", fontsize=7)
                for axes in line[len(band) :]:
                    axes.set_axis_off()
                line[0].set_ylabel(f"{label}\nquery", fontsize=7)
        bar = figure.colorbar(image, ax=grid, shrink=1 / len(bands), aspect=30)
        bar.set_label("attention weight")
        bar.outline.set_visible(False)
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per map, with the strongest key of each query."""
    strongest = frame.loc[frame.groupby([*MAP, "when", "query"], sort=False)["weight"].idxmax()]
    maps = strongest.groupby([*MAP, "when"], sort=False)
    rows = maps.agg(
        weight=("weight", "mean"), strongest_keys=("key", lambda keys: " ".join(map(str, keys)))
    ).reset_index()
    return Table(rows, {"weight": Column("mean of the greatest weights", 2)})


def _draw_map(axes: Axes, part: pd.DataFrame, greatest: float) -> AxesImage:
    """Draw one map in colours from 0 to `greatest`, with its tokens on both axes."""
    weights = part.pivot(index="query", columns="key", values="weight")
    image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=greatest, interpolation="nearest")
    step = math.ceil(len(weights) / TICKS)
    tokens = part.drop_duplicates("query")["query_token"].iloc[::step]
    places = list(range(0, len(weights), step))
    # A single character fits upright, and a bracket that lies on its side is none.
    axes.set_xticks(places, tokens, rotation=90 if tokens.map(len).max() > 1 else 0, fontsize=6)
    axes.set_yticks(places, tokens, fontsize=6)
    axes.tick_params(length=0, pad=1.5)
    axes.grid(False)
    return image
