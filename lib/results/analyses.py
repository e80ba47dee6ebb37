"""What analyses of models found, as figures and as Markdown: from their tables alone.

Columns are those that the modules of `lib.analysis` describe, behind a column `model`.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D

from lib.core.errors import DataError
from lib.results.style import PANEL_INCHES, STYLE, looks
from lib.results.table import Column, Table

WORDS = ["query_token", "key_token", "document", "label", "word"]
"""Columns of text, whatever it looks like."""
TIMES = {"before": "before training", "after": "after training"}
MAP = ["model", "layer", "head"]
TICKS = 40
"""Tokens that an axis of a map names, at most; of more, every second, third, ... one."""
TOKEN_INCHES = 0.13
MAP_INCHES = 1.3
"""Height and width of a map: so much per token, and at least so much."""
PANELS = 4
"""Panels beside each other, at most."""
FLOOR = 1e-12
"""Share of a gradient; what is below it is drawn on the lower edge."""
BOUNDARIES = {"global": 0.9, "local": 0.5}
"""Of `lib.analysis.heads`: share of the entropy above which a head is global, share of the distance below which it is
local."""


def read_analysis(table: str | Path) -> pd.DataFrame:
    """Return the table of an analysis; words such as `null` and `007` stay words.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        return pd.read_csv(table, keep_default_na=False, na_values=[""], dtype=dict.fromkeys(WORDS, str))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{table}: cannot be read ({error}). Expected the CSV file of an analysis; repeat it."
        ) from error


def attention_maps_figure(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw the attention maps of a document: above before, below after training, all with one scale of colours.

    If every model has a single map, the columns are models; else each model has two rows of its own, and the columns
    are its layers and heads.

    Args:
        frame: of `lib.analysis.attention_maps`.
        families: models, in order, each with its family.
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


def heads_figure(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw one point per head: how far it looks against how evenly; positional heads are filled.

    Args:
        frame: of `lib.analysis.heads`.
        families: models, in order, each with its family.
    """
    look = looks(families)
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(width + 1.6, height), layout="constrained")
        axes = figure.subplots()
        axes.axvline(BOUNDARIES["global"], color="0.35", linestyle="--", linewidth=0.8)
        axes.plot([0, BOUNDARIES["global"]], [BOUNDARIES["local"]] * 2, color="0.35", linestyle="--", linewidth=0.8)
        for model, (colour, marker) in look.items():
            heads = frame[frame["model"] == model]
            for positional, fill in ((True, colour), (False, "white")):
                part = heads[(heads["type"] == "positional") == positional]
                axes.plot(
                    part["entropy_share"], part["distance_share"], marker, color=colour, markerfacecolor=fill,
                    markersize=5, gid=f"{model}, {'positional' if positional else 'other'}", clip_on=False,
                )  # fmt: skip
        top = max(1.1, 1.08 * frame["distance_share"].max())
        axes.set(xlim=(0, 1), ylim=(0, top))
        for text, x, y in (("local", 0.02, 0.02), ("mixed", 0.02, BOUNDARIES["local"] + 0.02), ("global", 0.91, 0.02)):
            axes.text(x, y, text, color="0.35", fontsize=7, va="bottom", rotation=90 if text == "global" else 0)
        axes.set_xlabel("entropy of a row, share of the greatest possible")
        axes.set_ylabel("distance to keys, share of\nthat of equal weights")
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=5, label=model)
            for model, (colour, marker) in look.items()
        ]
        handles += [
            Line2D([], [], color="0.35", marker="o", linestyle="none", markersize=5, markerfacecolor=fill, label=label)
            for fill, label in (("0.35", "filled: positional"), ("white", "hollow: not"))
        ]
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def gradients_figure(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw the gradient against the distance, as a share of that of the last token itself, before and after training.

    Args:
        frame: of `lib.analysis.gradients`.
        families: models, in order, each with its family.
    """
    frame = frame[frame["distance"] > 0]
    frame = frame.assign(relative=frame["relative"].clip(lower=FLOOR))  # zeros, too, which have no logarithm
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(2 * width + 1.2, height), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (when, title) in zip(panels, TIMES.items(), strict=True):
            for model, (colour, marker) in looks(families).items():
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


def embeddings_figure(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw where a word lies in each document, by the class of the document: one panel per model, after the static one.

    Args:
        frame: of `lib.analysis.embeddings`.
        families: models, in order, each with its family.
    """
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
        grid[0].plot(0, 0, "o", color="C0", gid="static")  # over the points of all classes
        everything = f"all {len(panels[0][1])} documents"
        grid[0].annotate(everything, (0, 0), (0, 8), textcoords="offset points", ha="center", fontsize=7)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        handles = [
            Line2D([], [], marker="o", linestyle="none", markersize=4, color=colour, label=label)
            for label, colour in colours.items()
        ]
        title = f"documents with\n'{frame['word'].iloc[0]}' by class"
        figure.legend(handles=handles, title=title, loc="outside right upper")
    return figure


FIGURES: dict[str, Callable[[pd.DataFrame, Mapping[str, str]], Figure]] = {
    "attention_maps": attention_maps_figure,
    "heads": heads_figure,
    "gradients": gradients_figure,
    "embeddings": embeddings_figure,
}
"""What is drawn of each kind of analysis."""


def summary(kind: str, frame: pd.DataFrame) -> Table:
    """Return the main numbers of an analysis.

    Args:
        kind: of the analysis.
        frame: its table.

    Returns:
        `attention_maps`: one row per map, with the strongest key of each query. `heads`: one row per head.
        `gradients`: one row per model before and after training, columns by distance. `embeddings`: one row per model
        and representation.
    """
    return {
        "attention_maps": _strongest_keys,
        "heads": _heads,
        "gradients": _gradients,
        "embeddings": _separations,
    }[kind](frame)


def _strongest_keys(frame: pd.DataFrame) -> Table:
    strongest = frame.loc[frame.groupby([*MAP, "when", "query"], sort=False)["weight"].idxmax()]
    maps = strongest.groupby([*MAP, "when"], sort=False)
    rows = maps.agg(
        weight=("weight", "mean"), strongest_keys=("key", lambda keys: " ".join(map(str, keys)))
    ).reset_index()
    return Table(rows, {"weight": Column("mean of the greatest weights", 2)})


def _heads(frame: pd.DataFrame) -> Table:
    percent = {
        "agreement": "agreement", "entropy_share": "of ln n", "distance_share": "of equal weights'", "itself": "itself",
        "previous": "previous", "next": "next", "first": "first",
    }  # fmt: skip
    shown = frame.assign(**{name: 100 * frame[name] for name in percent})
    columns = {name: Column(f"{label} [%]", 0) for name, label in percent.items()}
    columns |= {"entropy": Column("entropy [nats]", 2), "distance": Column("distance [tokens]", 1)}
    order = ["entropy", "entropy_share", "distance", "distance_share", "itself", "previous", "next", "first"]
    return Table(shown[[*MAP, "type", "place", "agreement", *order]], columns)


def _gradients(frame: pd.DataFrame) -> Table:
    rows = frame.assign(relative=frame["relative"].map("{:.1e}".format))
    wide = rows.pivot(index=["model", "when"], columns="distance", values="relative")
    wide = wide.reindex(rows[["model", "when"]].drop_duplicates())
    wide.columns = [f"distance {distance}" for distance in wide.columns]
    return Table(wide.reset_index(), {}, "Gradients as shares of the one at distance 0, of the last token itself.")


def _separations(frame: pd.DataFrame) -> Table:
    columns = {"documents": Column("documents", 0), "silhouette": Column("silhouette", 2)}
    columns["accuracy"] = Column("accuracy [%]", 1)
    parts = frame.groupby(["model", "word", "representation"], sort=False)
    rows = parts.agg(documents=("document", "size"), silhouette=("silhouette", "first"), accuracy=("accuracy", "first"))
    return Table(rows.assign(accuracy=100 * rows["accuracy"]).reset_index(), columns)


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
