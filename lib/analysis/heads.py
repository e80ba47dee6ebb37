"""Attention heads over many documents: settings, figure and summary of their statistics."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.backbones.settings import Ability
from lib.core.settings import PositiveInt, Size
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers, legend_entry
from lib.results.table import Column, Table

GLOBAL_ENTROPY = 0.9
"""A head is global above this share of the greatest possible entropy."""
LOCAL_DISTANCE = 0.5
"""A head is local below this share of the distance of equal weights."""
POSITIONAL_AGREEMENT = 0.5
"""A head is positional if at least this share of its rows have their strongest key at the same place."""


class Settings(AnalysisSettings):
    """Statistics of each attention head over many documents: how evenly it attends, how far, and to which tokens."""

    needs: ClassVar[Ability] = "attention_maps"

    kind: Literal["heads"]
    documents: PositiveInt = 200
    """How many documents of test are read, at most."""
    length: Size = Field(256, ge=3)
    """Tokens that longer documents are cut to, since maps hold all pairs of them."""
    window: Size = 8
    """Tokens to either side that count as near."""


TARGETS = {
    "special": ("[CLS] and [SEP]", "0.25"),
    "near": ("others within {window} tokens", "0.65"),
    "far": ("others farther away", "0.95"),
}
"""Parts of the weights of a head: label and shade of each."""
BAR_INCHES = 0.13


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw how far and how evenly each head attends, and to which tokens.

    On the left one point per head, its distance against its entropy; positional heads are filled. On the right how the
    weights of a layer divide, as a mean over its heads, and below all how equal weights do.
    """
    layers = [part for model in families for _, part in frame[frame["model"] == model].groupby("layer")]
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        size = (2 * width + 2.4, max(height, BAR_INCHES * len(layers) + 1))
        figure = Figure(figsize=size, layout="constrained")
        axes, bars = figure.subplots(1, 2)
        _draw_types(axes, frame, families)
        _draw_targets(bars, layers, frame)
        point: dict[str, Any] = {"linestyle": "none", "markersize": 5}
        handles: list[Artist] = []
        for model, (colour, marker) in colours_and_markers(families).items():
            handles.append(legend_entry(model, color=colour, marker=marker, **point))
        for fill, label in (("0.35", "filled: positional"), ("white", "hollow: not")):
            handles.append(legend_entry(label, color="0.35", marker="o", markerfacecolor=fill, **point))
        for label, shade in TARGETS.values():
            named = label.format(window=frame["window"].iloc[0])
            handles.append(Patch(facecolor=shade, edgecolor="black", linewidth=0.5, label=named))
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per layer, with its heads by type and means over them."""
    percent = {
        "agreement": "agreement", "entropy_share": "of ln n", "distance_share": "of equal weights'", "itself": "itself",
        "previous": "previous", "next": "next", "first": "first", "special": "[CLS] and [SEP]",
        "near": f"others within {frame['window'].iloc[0]}", "far": "others farther",
    }  # fmt: skip
    columns = {name: Column(f"{label} [%]", 0) for name, label in percent.items()}
    columns |= {"entropy": Column("entropy [nats]", 2), "distance": Column("distance [tokens]", 1)}
    order = ["agreement", "entropy", "entropy_share", "distance", "distance_share", *list(percent)[3:]]
    types = frame["type"].where(frame["type"] != "positional", "positional, " + frame["place"])
    shown = frame.assign(heads=types, **{name: 100 * frame[name] for name in percent})
    layers = shown.groupby(["model", "layer"], sort=False)
    return Table(layers.agg({"heads": _counted} | dict.fromkeys(order, "mean")).reset_index(), columns)


def _counted(names: pd.Series) -> str:
    """Return how often each name occurs: `3 local; 1 positional, offset -1`."""
    return "; ".join(f"{count} {name}" for name, count in names.groupby(names).size().items())


def _draw_types(axes: Axes, frame: pd.DataFrame, families: Mapping[str, str]) -> None:
    """Draw a point per head, and lines between the areas of global, mixed and local heads."""
    axes.axvline(GLOBAL_ENTROPY, color="0.35", linestyle="--", linewidth=0.8)
    axes.plot([0, GLOBAL_ENTROPY], [LOCAL_DISTANCE] * 2, color="0.35", linestyle="--", linewidth=0.8)
    for model, (colour, marker) in colours_and_markers(families).items():
        heads = frame[frame["model"] == model]
        for positional, fill in ((True, colour), (False, "white")):
            part = heads[(heads["type"] == "positional") == positional]
            axes.plot(
                part["entropy_share"], part["distance_share"], marker, color=colour, markerfacecolor=fill,
                markersize=5, gid=f"{model}, {'positional' if positional else 'other'}", clip_on=False,
            )  # fmt: skip
    top = max(1.1, 1.08 * frame["distance_share"].max())
    axes.set(xlim=(0, 1), ylim=(0, top))
    for text, x, y in (("local", 0.02, 0.02), ("mixed", 0.02, LOCAL_DISTANCE + 0.02), ("global", 0.91, 0.02)):
        axes.text(x, y, text, color="0.35", fontsize=7, va="bottom", rotation=90 if text == "global" else 0)
    axes.set_xlabel("entropy of a row, share of the greatest possible")
    axes.set_ylabel("distance to keys, share of\nthat of equal weights")


def _draw_targets(axes: Axes, layers: Sequence[pd.DataFrame], frame: pd.DataFrame) -> None:
    """Draw a bar per layer, divided by `TARGETS`, and the bar of equal weights below them."""
    bars = {}
    for part in layers:
        model, layer = part[["model", "layer"]].iloc[0]
        bars[f"{model}, layer {layer}"] = part[list(TARGETS)].mean()
    special, near = frame[["uniform_special", "uniform_near"]].mean()
    bars["equal weights"] = pd.Series({"special": special, "near": near, "far": 1 - special - near})
    shares = 100 * pd.DataFrame(bars).T
    left = 0 * shares["special"]
    for name, (_, shade) in TARGETS.items():
        axes.barh(shares.index, shares[name], 0.75, left, color=shade, edgecolor="black", linewidth=0.5, gid=name)
        left += shares[name]
    axes.set(xlim=(0, 100), xlabel="attention weight [%]")
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelsize=7, length=0)
