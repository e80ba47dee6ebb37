"""Confusion matrices."""

from collections.abc import Iterable
from typing import ClassVar, Literal

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.errors import DataError
from lib.results.escapes import one_line
from lib.results.predictions import by_validation, class_names, load_items, printed_classes, without_copies
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, PoolingSettings
from lib.results.style import STYLE, panel_grid

BEST = 2
"""Models that are drawn if none is named, and matrices in a row."""
CELL_INCHES = 0.42
"""Side of a cell that bears figures."""
MATRIX_INCHES = (1.5, 5.0)
"""Least and greatest side of a matrix."""
WRITTEN = 14
"""Cells have their numbers up to this number of classes."""
NONE = "none"
"""Column of documents without a predicted class, if there are any."""


class ConfusionFigure(PoolingSettings, FigureSettings):
    """One figure per dataset: the confusion matrices on test of the models named, or else of the best two."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True

    kind: Literal["confusion"]
    stage: str
    """Stage whose predictions are drawn."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw a matrix per model: rows are true classes, columns predicted ones.

        If the settings name no models, these are the two with the highest F1 on validation, the best one first.

        A colour is the share of the documents (or labelled words) of the true class; a cell that holds any says it in
        percent, and below it their number, with several seeds the mean. Rows of classes without a document are grey.
        With more than 14 classes cells bear no figures. If any prediction is no class, a last column `none` holds such
        documents; a class of that name is then `class none`.

        Raises:
            ConfigError: the settings of a run cannot be read.
            DataError: a run is missing or duplicated, or has no predictions of classes.
        """
        grid = without_copies(scope.grid(self.stage))
        models = scope.models if self.models else by_validation(grid)[:BEST]
        runs = grid.groupby("row")["folder"]
        names = class_names(runs.get_group(models[0]).iloc[0])
        counts = [_counts(runs.get_group(row), len(names)) for row in models]
        has_none = any(matrix[:, -1].any() for matrix in counts)
        names = [one_line(name) for name in printed_classes(names, [NONE] if has_none else [])]
        predicted = [*names, NONE] if has_none else names
        side, in_a_row = float(np.clip(CELL_INCHES * len(names), *MATRIX_INCHES)), min(BEST, len(models))
        longest = max(map(len, names))
        margin = 0.065 * longest  # about as wide as the longest name
        figure, panels = panel_grid(len(models), (side + 0.3, side + 0.4), in_a_row)
        figure.set_figwidth(figure.get_figwidth() + margin + 1)
        figure.set_figheight(figure.get_figheight() + (margin + 0.4) * (2 if len(panels) % in_a_row else 1))
        for place, (axes, row, matrix) in enumerate(zip(panels, models, counts, strict=True)):
            is_lowest, is_first = place >= len(panels) - in_a_row, place % in_a_row == 0
            _draw_matrix(axes, matrix[:, : len(predicted)], side / len(predicted))
            axes.set_xticks(range(len(predicted)), predicted if is_lowest else [], rotation=90 * (longest > 2))
            axes.set_yticks(range(len(names)), names if is_first else [])
            axes.set(title=row, xlabel="predicted class" if is_lowest else "", ylabel="true class" if is_first else "")
            axes.tick_params(length=0)
        bar = figure.colorbar(axes.images[0], ax=panels, shrink=1 / len(panels[::in_a_row]), aspect=20, anchor=(0, 1))
        bar.set_label("share of the true class [%]")
        bar.outline.set_visible(False)
        return figure


def _counts(folders: Iterable[str], classes: int) -> np.ndarray:
    """Return how many documents (or labelled words) of each true class have each prediction, mean of runs [C, C + 1].

    The last column holds those without a predicted class (-1).
    """
    from sklearn.metrics import confusion_matrix  # starts slowly

    matrices = []
    for folder in folders:
        items, known = load_items(folder), [*range(classes), -1]
        if not items["prediction"].isin(known).all() or not items["label"].isin(known[:-1]).all():
            raise DataError(f"{folder}: it predicts classes other than 0 to {classes - 1}. Repeat the run.")
        matrices.append(confusion_matrix(items["label"], items["prediction"], labels=known)[:-1])
    return np.mean(matrices, axis=0)


def _draw_matrix(axes: Axes, counts: np.ndarray, cell_inches: float) -> None:
    of_class = counts.sum(axis=1, keepdims=True)
    percent = np.divide(100 * counts, of_class, out=np.full_like(counts, np.nan), where=of_class > 0)
    colours = matplotlib.colormaps["Blues"].with_extremes(bad="0.85")
    axes.imshow(percent, cmap=colours, vmin=0, vmax=100, interpolation="nearest")
    axes.grid(False)
    decimals = 0 if (counts == counts.round()).all() else 1
    if len(counts) <= WRITTEN:
        places = [place for place, count in np.ndenumerate(counts) if count]
        texts = [_written(float(percent[place]), float(counts[place]), decimals) for place in places]
        widest = max((len(line) for text in texts for line in text.split("\n")), default=1)
        size = min(8, 72 * cell_inches * min(0.4, 1.5 / widest))  # points, so that two lines fit, and the widest one
        for (row, column), text in zip(places, texts, strict=True):
            colour = "white" if percent[row, column] > 70 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=colour, linespacing=1)


def _written(percent: float, count: float, decimals: int) -> str:
    return f"{f'{percent:.0f}' if percent >= 0.5 else '<1'} %\n{count:,.{decimals}f}"
