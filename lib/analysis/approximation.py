"""How near FAVOR+ and LSH come to exact attention in trained models: its settings, figure and summary."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from pydantic import Field

from lib.analysis.settings import AnalysisSettings
from lib.analysis.table import TIMES
from lib.backbones.settings import Ability
from lib.core.settings import Few, PositiveInt, Size
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers, legend_entry
from lib.results.table import Column, Table


class Settings(AnalysisSettings):
    """How near FAVOR+ and LSH come to exact attention on a model's queries and keys, as drawn and as trained."""

    needs: ClassVar[Ability] = "attention_maps"
    tries: ClassVar[tuple[str, ...]] = ("favor", "lsh")

    kind: Literal["approximation"]
    documents: PositiveInt = 200
    """How many documents of test are read, at most."""
    length: Size = Field(256, ge=3)
    """Tokens that longer documents are cut to, since exact attention forms all pairs of them."""
    features: list[Annotated[Size, Field(ge=2, multiple_of=2)]] = Field([64, 128, 256, 512], min_length=1)
    """Numbers of features of FAVOR+; even."""
    hashes: list[Few] = Field([2, 4], min_length=1)
    """Hash rounds of LSH."""
    chunk_sizes: list[Size] = Field([64, 128], min_length=1)
    """Tokens in a chunk of LSH; a window holds three, so `length` should be far above."""


SETTING = ["features", "hashes", "chunk_size"]
"""What an approximation is tried with."""
NORMS = {"query_norm": -0.2, "key_norm": 0.2}
"""Where the norms of queries and of keys stand, as seen from the middle of a model's place."""


def draw(frame: pd.DataFrame, families: Mapping[str, str]) -> Figure:
    """Draw norms of queries and keys, errors of FAVOR+ and recall of LSH in each model, before and after training.

    The norms of a layer are a line from their least to their greatest quantile, with a marker at the median: filled for
    queries, hollow for keys. Errors and recall are means over layers and heads; filled markers are what FAVOR+ does
    with the draws that the model was trained with, and the setting of LSH that it was trained with.
    """
    styles, means = colours_and_markers(families), _setting_means(frame)
    layers = sorted(frame["layer"].unique())
    features = sorted(means.loc[means["quantity"] == "favor_error", "features"].unique())
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(2 * width + 2, 2.4 * height), layout="constrained")
        panels = figure.subplots(3, 2, sharex="row", sharey="row")
        for (norms, errors, recalls), (when, title) in zip(panels.T, TIMES.items(), strict=True):
            for place, (model, (colour, marker)) in enumerate(styles.items()):
                style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1, "gid": model}
                now = frame[(frame["model"] == model) & (frame["when"] == when) & frame["head"].isna()]
                _draw_norms(norms, now, place, len(styles), style)
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
        line: dict[str, Any] = {"markersize": 4, "linewidth": 1}
        handles = [legend_entry(name, color=colour, marker=marker, **line) for name, (colour, marker) in styles.items()]
        fills = {"0.35": "filled: queries, or what\nthe model trained with", "white": "hollow: keys, or others"}
        grey: dict[str, Any] = {"color": "0.35", "marker": "o", "linestyle": "none", "markersize": 4}
        handles += [legend_entry(label, markerfacecolor=fill, **grey) for fill, label in fills.items()]
        handles.append(legend_entry("no better than\nrandom order", color="0.35", linestyle=":", linewidth=1))
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def summarise(frame: pd.DataFrame) -> Table:
    """Return one row per model before and after training, with norms, and errors and recall by setting."""
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


def _setting_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what approximations do with each setting, in percent, as means over layers and heads.

    Args:
        frame: table of the analysis.

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


def _draw_norms(axes: Axes, layers: pd.DataFrame, place: int, models: int, style: dict[str, Any]) -> None:
    """Draw the norms in each layer of the model with this number, `place`."""
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
