"""The figures of a study, from run records alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
import textalloc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.files import atomic_path
from lib.results.groups import accuracy_by_group
from lib.results.records import select_grid
from lib.results.tables import quantity

STYLE = Path(__file__).with_name("figures.mplstyle")
BASELINE_COLOUR = "0.35"
MARKERS = "os^Dv<>P"
LINES = ("-", "--", "-.", ":")
PANEL_INCHES = (3.5, 3.3)
GROUP_PANEL_INCHES = (4.2, 3.3)
SPREAD = 0.3
"""Share of the least distance between two groups over which the points of one group are spread."""
LABELS = {
    "textsize": 7,
    "va": "center",  # else names are drawn lower than they were placed, by the depth of their letters
    "linewidth": 0.5,
    "margin": 0.002,
    "min_distance": 0.007,
    "max_distance": 0.4,
    "nbr_candidates": 2000,
}
"""How textalloc places names; distances are shares of a panel."""


def score_time_figure(
    runs: pd.DataFrame,
    *,
    stage: str,
    column: str,
    timed: Mapping[str, Sequence[tuple[str, str]]],
    families: Mapping[str, str],
    datasets: Sequence[str],
    baseline: str | None = None,
) -> Figure:
    """Draw a score against the minutes of training that a dataset cost, one panel per dataset.

    Times are means over the seeds; a bar spans one standard deviation of the score to either side where there is more
    than one seed.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        stage: whose runs have the score.
        column: the score, as `lib.results.tables.quantity` knows it.
        timed: what training times are added up for each model: stages, each with the model that names its runs, since
            models that are the same up to a stage share a run.
        families: models to draw, in order, each with the family that gives its colour.
        datasets: panels, in order.
        baseline: model without a training loop that is drawn as a dashed line.

    Returns:
        The figure, laid out.

    Raises:
        DataError: a run is missing, incomplete or there twice.
    """
    score, models = quantity(column), list(families)
    grid = select_grid(runs, stage, [*models, *([baseline] if baseline else [])], datasets, [score.source])
    key = ["dataset", "model"]
    minutes = _minutes(runs, timed, datasets)
    scores = score.factor * grid.groupby(key)[score.source].agg(["mean", "std"]).fillna(0)

    stages = list(dict.fromkeys(each for places in timed.values() for each, _ in places))
    look = looks(families)
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset)
            axes.set_xlabel(f"training time, {' + '.join(stages)} [min]")
            if baseline:
                axes.axhline(
                    scores.loc[(dataset, baseline), "mean"], color=BASELINE_COLOUR, linestyle="--", linewidth=1
                )
            _draw_models(axes, minutes[dataset], scores.loc[dataset], look)
            axes.margins(x=0.22, y=0.15)
        panels[0].set_ylabel(f"test {score.label}")
        figure.draw_without_rendering()  # lays the panels out, which names are placed in
        figure.set_layout_engine("none")
        for axes, dataset in zip(panels, datasets, strict=True):
            _label(axes, minutes[dataset], scores.loc[dataset], look, baseline)
    return figure


def group_score_figure(
    runs: pd.DataFrame,
    *,
    stage: str,
    families: Mapping[str, str],
    datasets: Sequence[str],
    labels: Mapping[str, str],
    chance: float | None = None,
    trained_to: float | None = None,
) -> Figure:
    """Draw accuracy on test against the number by which documents are grouped, one panel per dataset.

    Lines are means over the seeds; a bar spans one standard deviation to either side where there is more than one seed.
    The axis of the number is logarithmic where its greatest is more than ten times its least.

    Args:
        runs: frame of `lib.results.records.load_runs`.
        stage: whose runs have the predictions.
        families: models to draw, in order, each with the family that gives its colour.
        datasets: panels, in order.
        labels: what the number is, by dataset.
        chance: share that guessing gets right, drawn as a dashed line.
        trained_to: greatest number in the training documents, drawn as a vertical line.

    Returns:
        The figure, laid out.

    Raises:
        DataError: a run is missing or there twice, or has no predictions by group.
    """
    scores = {dataset: accuracy_by_group(runs, stage, list(families), dataset) for dataset in datasets}
    with matplotlib.style.context(STYLE):
        width, height = GROUP_PANEL_INCHES
        behind: dict[str, Any] = {"color": BASELINE_COLOUR, "zorder": 1.5}  # the lines of models
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset, pad=None if trained_to is None else 14)  # above the name of the line
            axes.set_xlabel(labels[dataset])
            _draw_groups(axes, scores[dataset], looks(families))
            if chance is not None:
                axes.axhline(100 * chance, linestyle="--", linewidth=1, label="chance", **behind)
            if trained_to is not None:
                axes.axvline(trained_to, linewidth=0.8, **behind)
                axes.annotate(
                    f"trained to {trained_to:g}",
                    (trained_to, 1),
                    xycoords=("data", "axes fraction"),
                    xytext=(0, 2),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7,
                    color=BASELINE_COLOUR,
                )
        low, high = panels[0].get_ylim()
        panels[0].set(ylabel="test accuracy [%]", ylim=(max(low, -3), min(high, 103)))  # bars may pass 0 and 100
        legend = figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper")
        figure.draw_without_rendering()  # tells how wide the legend is
        figure.set_figwidth(figure.get_figwidth() + legend.get_window_extent().width / figure.dpi)
    return figure


def looks(families: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Give each model a colour, by its family, and a marker, by its place within the family.

    Args:
        families: models, in order, each with its family; families follow in the order of their first models.

    Returns:
        Colour and marker of each model, in the order of `families`.
    """
    order = list(dict.fromkeys(families.values()))
    members: Counter[str] = Counter()
    look = {}
    for model, family in families.items():
        look[model] = f"C{order.index(family)}", MARKERS[members[family] % len(MARKERS)]
        members[family] += 1
    return look


def save_figure(figure: Figure, files: Iterable[str | Path]) -> None:
    """Write `figure` to each of the files atomically, in the format that its suffix names (png, svg, pdf).

    The same figure gives the same bytes, since no date is written.
    """
    for file in files:
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(file).suffix)
        with matplotlib.style.context(STYLE), atomic_path(file) as partial:
            figure.savefig(partial, metadata=metadata)


def _minutes(runs: pd.DataFrame, timed: Mapping[str, Sequence[tuple[str, str]]], datasets: Sequence[str]) -> pd.Series:
    """Return the minutes of training by dataset and model; a stage that does not work on a dataset costs it nothing."""
    minutes = {(dataset, model): 0.0 for dataset in datasets for model in timed}
    for model, places in timed.items():
        for stage, owner in places:
            own = [dataset for dataset in datasets if dataset in set(runs.loc[runs["stage"] == stage, "dataset"])]
            seconds = select_grid(runs, stage, [owner], own, ["seconds"]).groupby("dataset")["seconds"].mean()
            for dataset, value in seconds.items():
                minutes[dataset, model] += value / 60
    return pd.Series(minutes)


def _draw_models(axes: Axes, minutes: pd.Series, scores: pd.DataFrame, look: Mapping[str, tuple[str, str]]) -> None:
    for model, (colour, marker) in look.items():
        axes.errorbar(
            minutes[model],
            scores.loc[model, "mean"],
            yerr=scores.loc[model, "std"] or None,
            color=colour,
            marker=marker,
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=0.8,
            gid=model,
        )


def _draw_groups(axes: Axes, scores: pd.DataFrame, look: Mapping[str, tuple[str, str]]) -> None:
    """Draw a line for each model; its points stand a little beside their group, so that no bar covers another."""
    groups = scores.index.unique("group").sort_values().to_numpy()
    logarithmic = groups[0] > 0 and groups[-1] > 10 * groups[0]
    places = np.log(groups) if logarithmic else groups
    ranks = np.arange(len(look)) - (len(look) - 1) / 2
    shifts = SPREAD * np.diff(places).min(initial=places[-1] - places[0]) * ranks / len(look)
    for shift, (model, (colour, marker)) in zip(shifts, look.items(), strict=True):
        line = scores.loc[model]
        x = np.exp(places + shift) if logarithmic else places + shift
        axes.plot(
            x,
            line["mean"],
            color=colour,
            marker=marker,
            linestyle=LINES[MARKERS.index(marker) % len(LINES)],
            linewidth=1.1,
            markersize=4.5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            label=model,
            gid=model,
        )
        if line["std"].notna().any():
            axes.errorbar(x, line["mean"], yerr=line["std"], fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.6)
    if logarithmic:
        axes.set_xscale("log")
    named = _apart(places)
    axes.set_xticks(groups[named], [f"{group:,}" for group in groups[named]])
    axes.minorticks_off()


def _apart(places: np.ndarray) -> list[int]:
    """Return which of the ascending places can bear a name of some digits each; the last one does."""
    kept = [len(places) - 1]
    for index in reversed(range(len(places) - 1)):
        if places[kept[-1]] - places[index] > 0.09 * (places[-1] - places[0]):
            kept.append(index)
    return kept[::-1]


def _label(
    axes: Axes,
    minutes: pd.Series,
    scores: pd.DataFrame,
    look: Mapping[str, tuple[str, str]],
    baseline: str | None,
) -> None:
    """Name the baseline and each point, where the name covers no point, no bar, no line and no other name."""
    axes.autoscale(False)  # lines from points to names leave the limits alone
    models = list(look)
    x, y, spread = (column[models].to_numpy() for column in (minutes, scores["mean"], scores["std"]))
    radius = matplotlib.rcParams["lines.markersize"] / 2 * axes.figure.dpi / 72  # pixels
    names, at = models, [*zip(x, y, strict=True)]
    colours = lines = [colour for colour, _ in look.values()]
    x_lines, y_lines = [*zip(x, x, strict=True)], [*zip(y - spread, y + spread, strict=True)]
    if baseline:
        edges, height = axes.get_xlim(), scores.loc[baseline, "mean"]
        names, at = [f"baseline ({baseline})", *names], [(edges[1], height), *at]
        colours, lines = [BASELINE_COLOUR, *colours], ["none", *lines]
        x_lines, y_lines = [edges, *x_lines], [(height, height), *y_lines]
    textalloc.allocate(
        axes,
        *zip(*at, strict=True),
        names,
        x_scatter=x,
        y_scatter=y,
        scatter_sizes=[radius] * len(models),
        x_lines=x_lines,
        y_lines=y_lines,
        textcolor=colours,
        linecolor=lines,
        **LABELS,
    )
