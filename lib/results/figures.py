"""The figures of a study, from run records alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.style
import pandas as pd
import textalloc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.files import atomic_path
from lib.results.records import select_grid
from lib.results.tables import quantity

STYLE = Path(__file__).with_name("figures.mplstyle")
BASELINE_COLOUR = "0.35"
MARKERS = "os^Dv<>P"
PANEL_INCHES = (3.5, 3.3)
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
