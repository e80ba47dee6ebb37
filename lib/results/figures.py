"""The figures of the comparison, from run records alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from lib.core.files import atomic_path
from lib.core.settings.study import SWAP
from lib.results.records import BASELINE, baseline_scores, select_grid

STYLE = Path(__file__).with_name("figures.mplstyle")
BASELINE_COLOUR = "0.35"
MARKERS = "os^Dv<>P"
PANEL_INCHES = (3.5, 3.3)
LABEL_SIZE = 7
LABEL_DISTANCES = (6, 10, 15, 21, 28, 36, 45, 55)
"""Points from a marker to the near side of its label; tried in order."""
LABEL_ANGLES = (0, 180, 90, 270, 45, 315, 135, 225)
"""Degrees; tried in order at each distance."""


def f1_time_figure(
    runs: pd.DataFrame, baselines: Mapping[str, Mapping], models: Sequence[str], datasets: Sequence[str]
) -> Figure:
    """Draw test macro-F1 against the minutes of training that a dataset cost, a panel a dataset.

    Training is adaptation and fine-tuning together, means over the seeds; a bar spans one standard deviation of F1 to
    either side where there is more than one seed. The dashed line is the baseline.

    Args:
        runs: frame of `lib.results.records.load_runs` with the stages `tapt` and `finetune`.
        baselines: reports of `lib.results.records.load_baselines`.
        models: models to draw; colours follow the families in their order, markers the models within one.
        datasets: panels, in order.

    Raises:
        DataError: a run or a baseline is missing, incomplete or there twice.
    """
    tapt = select_grid(runs, "tapt", models, datasets, ["seconds"])
    finetune = select_grid(runs, "finetune", models, datasets, ["seconds", "test_f1_macro"])
    dashed = {dataset: 100 * score for dataset, score in baseline_scores(baselines, datasets).items()}
    key = ["dataset", "model"]
    minutes = (tapt.groupby(key)["seconds"].mean() + finetune.groupby(key)["seconds"].mean()) / 60
    scores = 100 * finetune.groupby(key)["test_f1_macro"].agg(["mean", "std"]).fillna(0)

    with matplotlib.style.context(STYLE):
        width, height = PANEL_INCHES
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(dataset)
            axes.set_xlabel("training time, adaptation + fine-tuning [min]")
            axes.axhline(dashed[dataset], color=BASELINE_COLOUR, linestyle="--", linewidth=1)
            _draw_models(axes, minutes[dataset], scores.loc[dataset], models)
            axes.margins(x=0.22, y=0.15)
        panels[0].set_ylabel("test macro-F1 [%]")
        figure.draw_without_rendering()  # fixes the layout, which labels are placed in
        for axes, dataset in zip(panels, datasets, strict=True):
            _label(axes, minutes[dataset], scores.loc[dataset], models, dashed[dataset])
        figure.set_layout_engine("none")
    return figure


def save_figure(figure: Figure, files: Iterable[str | Path]) -> None:
    """Write `figure` to each of the files atomically, in the format that its suffix names (png, svg, pdf).

    The same figure gives the same bytes, since no date is written.
    """
    for file in files:
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(file).suffix)
        with matplotlib.style.context(STYLE), atomic_path(file) as partial:
            figure.savefig(partial, metadata=metadata)


def _family(model: str) -> str:
    """Return the mechanism's kind, by which models are coloured."""
    return model.split(SWAP)[-1].split("-")[0]


def _colour(model: str, models: Sequence[str]) -> str:
    families = list(dict.fromkeys(map(_family, models)))
    return f"C{families.index(_family(model))}"


def _marker(model: str, models: Sequence[str]) -> str:
    family = [other for other in models if _family(other) == _family(model)]
    return MARKERS[family.index(model) % len(MARKERS)]


def _draw_models(axes: Axes, minutes: pd.Series, scores: pd.DataFrame, models: Sequence[str]) -> None:
    for model in models:
        axes.errorbar(
            minutes[model],
            scores.loc[model, "mean"],
            yerr=scores.loc[model, "std"] or None,
            color=_colour(model, models),
            marker=_marker(model, models),
            markeredgecolor="white",
            markeredgewidth=0.5,
            elinewidth=0.8,
            gid=model,
        )


def _label(axes: Axes, minutes: pd.Series, scores: pd.DataFrame, models: Sequence[str], baseline: float) -> None:
    """Name each point beside it, where the name covers no point, no other name and not the baseline."""
    point = axes.figure.dpi / 72  # pixels
    taken = []
    for model in models:
        mean, deviation = scores.loc[model]
        ends = [(minutes[model], mean - deviation), (minutes[model], mean + deviation)]
        taken.append(Bbox(axes.transData.transform(ends)).padded(4 * point))
    edges = [(x, baseline) for x in axes.get_xlim()]
    taken.append(Bbox(axes.transData.transform(edges)).padded(point))
    above = {"textcoords": "offset points", "ha": "right", "fontsize": LABEL_SIZE, "color": BASELINE_COLOUR}
    taken.append(axes.annotate(f"baseline ({BASELINE})", edges[1], (-2, 3), **above).get_window_extent())
    for model in scores.loc[models, "mean"].sort_values(ascending=False).index:
        at = (minutes[model], scores.loc[model, "mean"])
        taken.append(_place(axes, model, at, _colour(model, models), taken))


def _place(axes: Axes, text: str, at: tuple[float, float], colour: str, taken: Sequence[Bbox]) -> Bbox:
    """Write `text` beside the data point `at`, at the nearest place that is free; return the place, in pixels."""
    label = axes.annotate(
        text,
        at,
        (0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        color=colour,
        fontsize=LABEL_SIZE,
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3},
    )
    point = axes.figure.dpi / 72  # pixels
    size = Text.get_window_extent(label).size / point
    origin, inside = axes.transData.transform(at), axes.get_window_extent()

    def place(distance: int, degrees: int) -> tuple[np.ndarray, Bbox]:
        direction = np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]).round(9)
        middle = distance * direction + np.sign(direction) * size / 2  # points from the marker
        corner = origin + (middle - size / 2) * point
        return middle, Bbox.from_bounds(*corner, *(size * point))

    def conflicts(box: Bbox) -> int:
        cut = not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1))
        return box.count_overlaps(taken) + cut * len(taken)

    places = [place(distance, degrees) for distance in LABEL_DISTANCES for degrees in LABEL_ANGLES]
    best = min(range(len(places)), key=lambda index: conflicts(places[index][1]))  # the first, so the nearest
    middle, box = places[best]
    label.set_position(middle)
    label.arrow_patch.set_visible(best >= len(LABEL_ANGLES))  # a label next to its marker needs no line
    return box
