"""How the variants of a search scored on validation, as heat maps."""

import itertools
from typing import ClassVar, Literal

import matplotlib
import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from pydantic import Field

from lib.core.search_space import Setting, spelled
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, Topic
from lib.results.style import STYLE
from lib.results.variants import searched, variant_scores

COLOURS = "cividis"
"""Even for colour-blind readers, and lighter with every step in grey, too."""
CELL_INCHES = (0.85, 0.5)
AROUND_INCHES = (1.1, 0.75)
"""Room for the labels of a map, and above it for its title."""
LINE_INCHES = 0.15
SCALE_INCHES = 0.8


class Settings(FigureSettings):
    """A score of every variant of a stage, one map per dataset and combination of all settings but the last two."""

    about: ClassVar[Topic] = "training"
    takes_variants: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["search"]
    stage: str = Field(description="Stage with `variants`; the last two of its settings span the maps.")
    column: str = Field("validation_f1", description="The score, as in the columns of tables; the highest is the best.")


def draw(settings: Settings, scope: Scope) -> Figure:
    """Draw a score of every variant, one column of maps per dataset with a scale of its own.

    Means over the seeds, with a standard deviation below them where there is more than one seed. The best of a dataset,
    and model if there are several, has a frame. A single setting makes maps of one row.
    """
    score = scope.quantity(settings.column, settings.stage)
    scores, values = variant_scores(scope, settings.stage, score), searched(scope, settings.stage)
    *outer, (x_name, x_values) = values.items()
    y_name, y_values = outer.pop() if outer else ("", [""])
    models: list[tuple[str, list[Setting]]] = [("model", [*scope.models])] if len(scope.models) > 1 else []
    named = [*models, *outer]
    of_rows = [*itertools.product(*([(name, each) for each in values] for name, values in named))]
    searched_on = scores["mean"].dropna().index.unique("dataset")
    datasets = [dataset for dataset in scope.stages[settings.stage] if dataset in searched_on]
    rows, columns = shape = len(y_values), len(x_values)
    width = CELL_INCHES[0] * columns + AROUND_INCHES[0]
    height = CELL_INCHES[1] * rows + AROUND_INCHES[1] + LINE_INCHES * len(named)
    with matplotlib.style.context([STYLE, {"axes.grid": False}]):
        figure = Figure(figsize=(width * len(datasets), height * len(of_rows) + SCALE_INCHES), layout="constrained")
        panels = figure.subplots(len(of_rows), len(datasets), squeeze=False)
        for dataset, below in zip(datasets, panels.T, strict=True):
            found, label = scores.loc[dataset], scope.quantity(settings.column, settings.stage, dataset).label
            # Variants follow each other as the settings do, the last of which runs fastest.
            maps = [found.iloc[start : start + rows * columns] for start in range(0, len(found), rows * columns)]
            for axes, part, row in zip(below, maps, of_rows, strict=True):
                if part["mean"].isna().all():  # the model is not made for the dataset
                    axes.set_axis_off()
                    continue
                image = _draw_map(axes, part, shape, (found["mean"].min(), found["mean"].max()), score.decimals)
                parts = [dataset, *(f"{name.replace('_', ' ')}: {spelled(value)}" for name, value in row)]
                axes.set_title("\n".join(parts), fontsize=8.5)
                axes.set_xticks(range(columns), list(map(spelled, x_values)))
                axes.set_yticks(range(rows), list(map(spelled, y_values)))
                axes.set(xlabel=x_name.replace("_", " "), ylabel=y_name.replace("_", " "))
            figure.colorbar(image, ax=list(below), location="bottom", label=label, aspect=30)
    return figure


def _draw_map(
    axes: Axes, part: pd.DataFrame, shape: tuple[int, int], scale: tuple[float, float], decimals: int
) -> AxesImage:
    """Draw the scores of a map, written into their cells, in the colours of a scale between two scores."""
    image = axes.imshow(
        part["mean"].to_numpy().reshape(shape), cmap=COLOURS, vmin=scale[0], vmax=scale[1], aspect="auto"
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for place, cell in enumerate(part.itertuples()):
        row, column = divmod(place, shape[1])
        spread = "" if pd.isna(cell.std) else f"\n± {cell.std:.{decimals}f}"
        dark = cell.mean < sum(scale) / 2
        axes.text(
            column, row, f"{cell.mean:.{decimals}f}{spread}", ha="center", va="center", fontsize=7.5,
            color="white" if dark else "black", fontweight="bold" if cell.best else "normal",
        )  # fmt: skip
        if cell.best:
            axes.add_patch(
                Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, edgecolor="C2", linewidth=2, gid="best")
            )
    return image
