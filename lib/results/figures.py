"""The figures of the comparison, from run records alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.style
import pandas as pd
import textalloc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.files import atomic_path
from lib.results.records import BASELINE, baseline_scores, select_grid

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


def f1_time_figure(
    runs: pd.DataFrame,
    baselines: Mapping[str, Mapping],
    models: Sequence[str],
    datasets: Sequence[str],
    families: Mapping[str, str] | None = None,
) -> Figure:
    """Draw test macro-F1 against the minutes of training that a dataset cost, a panel a dataset.

    Training is adaptation and fine-tuning together, means over the seeds; a bar spans one standard deviation of F1 to
    either side where there is more than one seed. The dashed line is the baseline.

    Args:
        runs: frame of `lib.results.records.load_runs` with the stages `tapt` and `finetune`.
        baselines: reports of `lib.results.records.load_baselines`.
        models: models to draw, in order.
        datasets: panels, in order.
        families: family of each model, for `looks`.

    Returns:
        The figure, laid out.

    Raises:
        DataError: a run or a baseline is missing, incomplete or there twice.
    """
    tapt = select_grid(runs, "tapt", models, datasets, ["seconds"])
    finetune = select_grid(runs, "finetune", models, datasets, ["seconds", "test_f1_macro"])
    dashed = {dataset: 100 * score for dataset, score in baseline_scores(baselines, datasets).items()}
    key = ["dataset", "model"]
    minutes = (tapt.groupby(key)["seconds"].mean() + finetune.groupby(key)["seconds"].mean()) / 60
    scores = 100 * finetune.groupby(key)["test_f1_macro"].agg(["mean", "std"]).fillna(0)

    look = looks(models, families)
    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset)
            axes.set_xlabel("training time, adaptation + fine-tuning [min]")
            axes.axhline(dashed[dataset], color=BASELINE_COLOUR, linestyle="--", linewidth=1)
            _draw_models(axes, minutes[dataset], scores.loc[dataset], look)
            axes.margins(x=0.22, y=0.15)
        panels[0].set_ylabel("test macro-F1 [%]")
        figure.draw_without_rendering()  # lays the panels out, which names are placed in
        figure.set_layout_engine("none")
        for axes, dataset in zip(panels, datasets, strict=True):
            _label(axes, minutes[dataset], scores.loc[dataset], look, dashed[dataset])
    return figure


def looks(models: Sequence[str], families: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Give each model a colour, by its family, and a marker, by its place within the family.

    Args:
        models: models, in order; families follow in the order of their first models.
        families: family of each model; of a model that is not there, the part of its name before the first "-".

    Returns:
        Colour and marker of each model, in the order of `models`.
    """
    family = {model: (families or {}).get(model, model.split("-")[0]) for model in models}
    order = list(dict.fromkeys(family.values()))
    members, look = Counter(), {}
    for model in models:
        name = family[model]
        look[model] = f"C{order.index(name)}", MARKERS[members[name] % len(MARKERS)]
        members[name] += 1
    return look


def save_figure(figure: Figure, files: Iterable[str | Path]) -> None:
    """Write `figure` to each of the files atomically, in the format that its suffix names (png, svg, pdf).

    The same figure gives the same bytes, since no date is written.
    """
    for file in files:
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(file).suffix)
        with matplotlib.style.context(STYLE), atomic_path(file) as partial:
            figure.savefig(partial, metadata=metadata)


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
    axes: Axes, minutes: pd.Series, scores: pd.DataFrame, look: Mapping[str, tuple[str, str]], baseline: float
) -> None:
    """Name the baseline and each point, where the name covers no point, no bar, no line and no other name."""
    axes.autoscale(False)  # lines from points to names leave the limits alone
    models = list(look)
    x, y, spread = (column[models].to_numpy() for column in (minutes, scores["mean"], scores["std"]))
    edges = axes.get_xlim()
    colours = [colour for colour, _ in look.values()]
    radius = matplotlib.rcParams["lines.markersize"] / 2 * axes.figure.dpi / 72  # pixels
    textalloc.allocate(
        axes,
        [edges[1], *x],
        [baseline, *y],
        [f"baseline ({BASELINE})", *models],
        x_scatter=x,
        y_scatter=y,
        scatter_sizes=[radius] * len(models),
        x_lines=[edges, *zip(x, x, strict=True)],
        y_lines=[(baseline, baseline), *zip(y - spread, y + spread, strict=True)],
        textcolor=[BASELINE_COLOUR, *colours],
        linecolor=["none", *colours],
        **LABELS,
    )
