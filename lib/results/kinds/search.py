"""Tried settings of a search, their validation scores, and the best."""

import itertools
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from lib.core.search_space import Setting, short_name, spelled, variant_name
from lib.results.scope import Scope
from lib.results.settings import MODEL, FigureSettings, ResultSettings, TableSettings, Topic
from lib.results.style import STYLE
from lib.results.table import Column, Key, Table
from lib.results.variants import CHOOSING, searched, setting_columns, variant_scores

SPREAD = ("maximum", "minimum", "difference", "seeds")
"""Columns of how far the seeds lie apart."""


class SearchSettings(ResultSettings):
    """Settings that all results of a search share."""

    about: ClassVar[Topic] = "training"
    takes_variants: ClassVar[Literal["needed"]] = "needed"

    stage: str
    """Stage with `variants`."""
    column: str = CHOOSING
    """The score, as in the columns of tables; the highest is the best, of a loss or an error the lowest."""


class SearchTable(SearchSettings, TableSettings):
    """One row per variant of a stage, its score on validation by dataset, the best one bold."""

    takes_variants: ClassVar[Literal["any"]] = "any"  # type: ignore[assignment]  # without, it shows seeds

    kind: Literal["search"]
    spread: bool = False
    """Show the greatest and the least score over the seeds, their difference, and how many."""

    def make(self, scope: Scope) -> Table:
        """Return one row per variant, and model if there are several: its settings, and its score on each dataset.

        With more than one seed these are means with a standard deviation. The difference of a single seed from itself
        is left empty. Copies of one evaluation count as one.
        """
        score = scope.quantity(self.column, self.stage)
        scores, variants = variant_scores(scope, self.stage, score), scope.variants.get(self.stage, [{}])
        named = [{short_name(name): value for name, value in variant.items()} for variant in variants]
        rows = [{MODEL: model, **variant} for model in scope.models for variant in named]
        frame, columns, bold = pd.DataFrame(rows, dtype=object), {}, {}
        if len(scope.models) == 1 and len(variants) > 1:
            frame = frame.drop(columns=MODEL)
        for dataset in scope.stages[self.stage]:
            found = scores.loc[dataset]
            key = Key((dataset,))
            frame[key] = found["mean"].to_numpy()
            if len(variants) > 1:
                bold[key] = found["best"].tolist()
            label = scope.quantity(self.column, self.stage, dataset).label
            columns[key] = Column(f"{dataset} {label}", score.decimals)
            if found["std"].notna().any():
                frame[key.sd] = found["std"].to_numpy()
            if self.spread:
                apart = (found["max"] - found["min"]).where(found["size"] > 1)
                values = (found["max"], found["min"], apart, found["size"])
                labels = f"greatest {label}", f"least {label}", score.difference_label("difference"), "seeds"
                for name, of_rows, text in zip(SPREAD, values, labels, strict=True):
                    frame[Key((dataset, name))] = of_rows.to_numpy()
                    decimals = 0 if name == "seeds" else score.decimals
                    columns[Key((dataset, name))] = Column(f"{dataset} {text}", decimals)
        if not bold:
            return Table(frame, columns)
        of_each = "dataset" if len(scope.models) == 1 else "model and dataset"
        chosen = ", by which settings are chosen" if self.column == CHOOSING else ""
        return Table(frame, columns, f"Bold: the best of each {of_each}, the first of equal ones{chosen}.", bold)


LEAD_NOTE = (
    "Lead: how far the mean of the best is from that of the second. One that is no larger than the standard deviation "
    "over seeds, or that only one seed shows, may as well be chance."
)


class SearchBestTable(SearchSettings, TableSettings):
    """One row per dataset: the best variant of a stage, its score on validation, and its lead over the second."""

    kind: Literal["search_best"]

    def make(self, scope: Scope) -> Table:
        """Return one row per dataset, and model if there are several: the best settings, their score, lead and seeds.

        With more than one seed the score is a mean with a standard deviation. The lead is missing where there is
        one variant only.
        """
        score, stage = scope.quantity(self.column, self.stage), self.stage
        variants = {variant_name(variant): variant for variant in scope.variants[stage]}
        made = ("dataset", "model", score.name, f"{score.name}_sd", "lead", "seeds")
        names = setting_columns(scope.variants[stage][0], made)
        rows = []
        for (dataset, model), found in variant_scores(scope, stage, score).groupby(["dataset", "row"], sort=False):
            if not found["best"].any():
                continue  # the model is not made for the dataset
            (best,) = found[found["best"]].itertuples()
            chosen = {names[place]: spelled(value) for place, value in variants[best.Index[-1]].items()}
            others = found.loc[~found["best"], "mean"]
            lead = abs(best.mean - (others.min() if score.smaller_is_better else others.max()))
            scores = {score.name: best.mean, f"{score.name}_sd": best.std, "lead": lead, "seeds": best.size}
            rows.append({"dataset": dataset, "model": model, **chosen, **scores})
        frame = pd.DataFrame(rows)
        one_model, one_seed = len(scope.models) == 1, bool(frame[f"{score.name}_sd"].isna().all())
        columns = {
            score.name: Column(score.label, score.decimals),
            "lead": Column("lead [points]" if score.factor == 100 else "lead", score.decimals),
            "seeds": Column("seeds", 0),
        }
        return Table(frame.drop(columns=["model"] * one_model + [f"{score.name}_sd"] * one_seed), columns, LEAD_NOTE)


COLOURS = "cividis"
"""Even for colour-blind readers, and lighter with every step in grey, too."""
CELL_INCHES = (0.85, 0.5)
AROUND_INCHES = (1.1, 0.75)
"""Room for the labels of a map, and above it for its title."""
LINE_INCHES = 0.15
SCALE_INCHES = 0.8


class SearchFigure(SearchSettings, FigureSettings):
    """A score of every variant of a stage, one map per dataset and combination of all settings but the last two."""

    kind: Literal["search"]
    stage: str
    """Stage with `variants`; the last two of its settings span the maps."""

    @matplotlib.style.context([STYLE, {"axes.grid": False}])
    def draw(self, scope: Scope) -> Figure:
        """Draw a score of every variant, one column of maps per dataset with a scale of its own.

        Means over the seeds, with a standard deviation below them where there is more than one seed. The best of a
        dataset, and model if there are several, has a frame. A single setting makes maps of one row.
        """
        score = scope.quantity(self.column, self.stage)
        scores, values = variant_scores(scope, self.stage, score), searched(scope, self.stage)
        *outer, (x_name, x_values) = values.items()
        y_name, y_values = outer.pop() if outer else ("", [""])
        models: list[tuple[str, list[Setting]]] = [("model", [*scope.models])] if len(scope.models) > 1 else []
        named = [*models, *outer]
        of_rows = [*itertools.product(*([(name, each) for each in values] for name, values in named))]
        searched_on = scores["mean"].dropna().index.unique("dataset")
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in searched_on]
        rows, columns = shape = len(y_values), len(x_values)
        width = CELL_INCHES[0] * columns + AROUND_INCHES[0]
        height = CELL_INCHES[1] * rows + AROUND_INCHES[1] + LINE_INCHES * len(named)
        figure = Figure(figsize=(width * len(datasets), height * len(of_rows) + SCALE_INCHES), layout="constrained")
        for dataset, below in zip(datasets, figure.subplots(len(of_rows), len(datasets), squeeze=False).T, strict=True):
            found, label = scores.loc[dataset], scope.quantity(self.column, self.stage, dataset).label
            # Variants follow each other as the settings do, the last of which runs fastest.
            maps = [found.iloc[start : start + rows * columns] for start in range(0, len(found), rows * columns)]
            for axes, part, row in zip(below, maps, of_rows, strict=True):
                if part["mean"].isna().all():  # the model is not made for the dataset
                    axes.set_axis_off()
                    continue
                image = _draw_map(axes, part, shape, (found["mean"].min(), found["mean"].max()), score.decimals)
                parts = [scope.title(dataset), *(f"{name.replace('_', ' ')}: {spelled(value)}" for name, value in row)]
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
    means, (least, greatest) = part["mean"].to_numpy().reshape(shape), scale
    image = axes.imshow(means, cmap=COLOURS, vmin=least, vmax=greatest, aspect="auto")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for place, cell in enumerate(part.itertuples()):
        row, column = divmod(place, shape[1])
        spread = "" if pd.isna(cell.std) else f"\n± {cell.std:.{decimals}f}"
        axes.text(
            column, row, f"{cell.mean:.{decimals}f}{spread}", ha="center", va="center", fontsize=7.5,
            color="white" if cell.mean < sum(scale) / 2 else "black", fontweight="bold" if cell.best else "normal",
        )  # fmt: skip
        if cell.best:
            frame: dict[str, Any] = {"fill": False, "edgecolor": "C2", "linewidth": 2, "gid": "best"}
            axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, **frame))
    return image
