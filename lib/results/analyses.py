"""What analyses of models found, as figures and as Markdown: from their tables alone.

Columns are those that the modules of `lib.analysis` describe, behind a column `model`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

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
TARGETS = {
    "special": ("[CLS] and [SEP]", "0.25"),
    "near": ("others within {window} tokens", "0.65"),
    "far": ("others farther away", "0.95"),
}
"""What the weights of a head divide into: label and shade of each part."""
BAR_INCHES = 0.13
SETTING = ["features", "hashes", "chunk_size"]
"""What an approximation is tried with."""
NORMS = {"query_norm": -0.2, "key_norm": 0.2}
"""Where the norms of queries and of keys stand, as seen from the middle of a model's place."""


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
    """Draw what attention heads do: how far and how evenly they look, and at what.

    On the left one point per head, how far it looks against how evenly; positional heads are filled. On the right how
    the weights of a layer divide, as a mean over its heads, and below all how equal weights do.

    Args:
        frame: of `lib.analysis.heads`.
        families: models, in order, each with its family.
    """
    look = looks(families)
    layers = [part for model in families for _, part in frame[frame["model"] == model].groupby("layer")]
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        size = (2 * width + 2.4, max(height, BAR_INCHES * len(layers) + 1))
        figure = Figure(figsize=size, layout="constrained")
        axes, bars = figure.subplots(1, 2)
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
        _draw_targets(bars, layers, frame)
        handles: list[Artist] = [
            Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=5, label=model)
            for model, (colour, marker) in look.items()
        ]
        handles += [
            Line2D([], [], color="0.35", marker="o", linestyle="none", markersize=5, markerfacecolor=fill, label=label)
            for fill, label in (("0.35", "filled: positional"), ("white", "hollow: not"))
        ]
        handles += [
            Patch(facecolor=shade, edgecolor="black", linewidth=0.5, label=label.format(window=frame["window"].iloc[0]))
            for label, shade in TARGETS.values()
        ]
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def approximation_figure(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw norms of queries and keys, errors of FAVOR+ and recall of LSH in each model, before and after training.

    The norms of a layer are a line from their least to their greatest quantile, with a marker at the median: filled for
    queries, hollow for keys. Errors and recall are means over layers and heads; filled markers are what FAVOR+ does
    with the draws that the model was trained with, and the setting of LSH that it was trained with.

    Args:
        frame: of `lib.analysis.approximation`.
        families: models, in order, each with its family.
    """
    look, means = looks(families), _setting_means(frame)
    layers = sorted(frame["layer"].unique())
    features = sorted(means.loc[means["quantity"] == "favor_error", "features"].unique())
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(2 * width + 2, 2.4 * height), layout="constrained")
        panels = figure.subplots(3, 2, sharex="row", sharey="row")
        for (norms, errors, recalls), (when, title) in zip(panels.T, TIMES.items(), strict=True):
            for place, (model, (colour, marker)) in enumerate(look.items()):
                style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1, "gid": model}
                now = frame[(frame["model"] == model) & (frame["when"] == when) & frame["head"].isna()]
                _draw_norms(norms, now, place, len(look), style)
                of_model = means[(means["model"] == model) & (means["when"] == when)]
                tried, reached, own = (
                    of_model[of_model["quantity"] == name] for name in ("favor_error", "lsh_recall", "own_error")
                )
                _draw_settings(errors, tried, own[own["features"] > 0], "features", style)
                _draw_settings(recalls, reached, reached[reached["own"]], "chance", style | {"linestyle": "none"})
            norms.set_title(title)
            norms.set(xlabel="layer", xticks=layers, xticklabels=layers)
            errors.set_xlabel("features of FAVOR+")
            errors.set_xscale("log", base=2)
            errors.set_xticks(features, [f"{number:g}" for number in features])
            errors.xaxis.set_minor_locator(NullLocator())
            recalls.plot([0, 100], [0, 100], color="0.35", linestyle=":", linewidth=1)
            recalls.set_xlabel("within windows over random order [%]")
        panels[0, 0].set(ylabel="norm of queries and keys", ylim=(0, None))
        panels[1, 0].set(ylabel="relative error of FAVOR+ [%]", ylim=(0, None))
        panels[2, 0].set(ylabel="exact attention within\nwindows of LSH [%]", xlim=(0, 103), ylim=(0, 103))
        handles = [
            Line2D([], [], color=colour, marker=marker, markersize=4, linewidth=1, label=model)
            for model, (colour, marker) in look.items()
        ]
        fills = {"0.35": "filled: queries, or what\nthe model trained with", "white": "hollow: keys, or others"}
        handles += [
            Line2D([], [], color="0.35", marker="o", linestyle="none", markersize=4, markerfacecolor=fill, label=label)
            for fill, label in fills.items()
        ]
        handles.append(Line2D([], [], color="0.35", linestyle=":", linewidth=1, label="no better than\nrandom order"))
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
    "approximation": approximation_figure,
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
        `attention_maps`: one row per map, with the strongest key of each query. `heads`: one row per layer, with its
        heads by type and means over them. `approximation`: one row per model before and after training, columns by
        setting. `gradients`: likewise, columns by distance. `embeddings`: one row per model and representation.
    """
    return {
        "attention_maps": _strongest_keys,
        "heads": _heads,
        "approximation": _approximations,
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
        "previous": "previous", "next": "next", "first": "first", "special": "[CLS] and [SEP]",
        "near": f"others within {frame['window'].iloc[0]}", "far": "others farther",
    }  # fmt: skip
    columns = {name: Column(f"{label} [%]", 0) for name, label in percent.items()}
    columns |= {"entropy": Column("entropy [nats]", 2), "distance": Column("distance [tokens]", 1)}
    order = ["agreement", "entropy", "entropy_share", "distance", "distance_share", *list(percent)[3:]]
    positional = frame["type"] == "positional"
    types = frame["type"].where(~positional, "positional, " + frame["place"])
    shown = frame.assign(heads=types, **{name: 100 * frame[name] for name in percent})
    layers = shown.groupby(["model", "layer"], sort=False)
    rows = layers.agg({"heads": _counted} | dict.fromkeys(order, "mean")).reset_index()
    return Table(rows, columns)


def _counted(names: pd.Series) -> str:
    """Return how often each name occurs: `3 local; 1 positional, offset -1`."""
    return "; ".join(f"{count} {name}" for name, count in names.groupby(names).size().items())


def _approximations(frame: pd.DataFrame) -> Table:
    medians = frame[frame["head"].isna() & (frame["quantile"] == 0.5)]
    rows = medians.pivot_table("value", ["model", "when"], "quantity", sort=False)[list(NORMS)]
    columns = {"query_norm": Column("norm of queries", 1), "key_norm": Column("norm of keys", 1)}
    means = _setting_means(frame).set_index(["model", "when"])
    own, favor, lsh = (means[means["quantity"] == name] for name in ("own_error", "favor_error", "lsh_recall"))
    rows["own"] = own["value"]
    columns["own"] = Column("own error [%]", 1)
    for features, part in favor.groupby("features"):
        name = f"favor-m{features:g}"
        rows[name], rows["mean"] = part["value"], part["chance"]
        columns[name] = Column(f"{name} error [%]", 1)
    columns["mean"] = Column("error of the mean [%]", 1)
    for (hashes, size), part in lsh.groupby(["hashes", "chunk_size"]):
        name = f"lsh-h{hashes:g}-c{size:g}"
        rows[name], rows[f"{name}_random"] = part["value"], part["chance"]
        columns[name] = Column(f"{name} reaches [%]", 1)
        columns[f"{name}_random"] = Column(f"{name} at random [%]", 1)
    note = (
        "Means over layers and heads, of norms over the medians of layers. Errors are those of outputs against exact "
        "attention on the same queries and keys: own, of the model's mechanism as it trained, others with fresh draws; "
        "the mean attends to all tokens equally."
    )
    return Table(rows[list(columns)].reset_index(), columns, note)


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


def _setting_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what approximations do with each setting, in percent, as means over layers and heads.

    Args:
        frame: of `lib.analysis.approximation`.

    Returns:
        `model`, `when`, `quantity`, `SETTING` (0 = has none), `value`, `chance`, and `own`: whether the model's
        mechanism has this setting.
    """
    key = ["model", "when", "quantity", *SETTING]
    tried = frame[~frame["quantity"].isin(NORMS)].fillna(dict.fromkeys(SETTING, 0))
    means = (100 * tried.groupby(key, sort=False)[["value", "chance"]].mean()).reset_index()
    own = means.loc[means["quantity"] == "own_error", ["model", "when", *SETTING]]
    means = means.merge(own, how="left", indicator="own")
    return means.assign(own=means["own"] == "both")


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


def _draw_norms(axes: Axes, layers: pd.DataFrame, place: int, models: int, style: dict[str, Any]) -> None:
    """Draw the norms in each layer of the model that is number `place` of so many."""
    for quantity, shift in NORMS.items():
        norms = layers[layers["quantity"] == quantity].pivot(index="layer", columns="quantile", values="value")
        x = norms.index + 0.8 * ((place + 0.5 + shift) / models - 0.5)
        axes.vlines(x, norms.min(axis=1), norms.max(axis=1), color=style["color"], linewidth=0.8)
        fill = style["color"] if quantity == "query_norm" else "white"
        axes.plot(x, norms[0.5], **style | {"linestyle": "none", "markersize": 3, "markerfacecolor": fill})


def _draw_settings(axes: Axes, settings: pd.DataFrame, own: pd.DataFrame, x: str, style: dict[str, Any]) -> None:
    """Draw the value of each setting, and filled that of the model's own."""
    axes.plot(settings[x], settings["value"], **style, markerfacecolor="white")
    axes.plot(own[x], own["value"], **style | {"gid": f"{style['gid']}, own", "linestyle": "none"}, zorder=3)


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
