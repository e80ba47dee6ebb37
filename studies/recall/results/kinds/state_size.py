"""Scores against how much of a text models keep, each model with the variant that validation chose."""

from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from lib.core.search_space import spelled, variant_name
from lib.core.settings import Fraction
from lib.results.predictions import accuracy_by_group, without_copies
from lib.results.quantities import STATE, Quantity
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, ResultSettings, TableSettings
from lib.results.style import (
    BEHIND,
    CHANCE,
    STYLE,
    colours_and_markers,
    draw_points,
    legend_beside,
    legend_entry,
    panel_grid,
)
from lib.results.table import Column, Table
from lib.results.variants import searched, setting_columns, variant_scores


class StateSizeSettings(ResultSettings):
    """Settings that the table and the figure share."""

    takes_variants: ClassVar[Literal["any"]] = "any"

    stage: str
    """Stage whose runs are shown."""
    by: str = "validation_accuracy"
    """The score on validation whose best mean over the seeds chooses a row's variant, if the stage has variants."""

    @property
    def needs_state(self) -> bool:
        """See the base."""
        return True


NOTE = "State size: what a model keeps of a text of the greatest length, over all layers and heads, in float32. "


class StateSizeTable(StateSizeSettings, TableSettings):
    """One row per dataset and model: its state size, what validation chose among the variants, and its scores."""

    kind: Literal["state_size"]
    column: str = "accuracy"
    """The score, as in the columns of `stage` tables."""

    def make(self, scope: Scope) -> Table:
        """Return one row per dataset and model, with the state size, the chosen settings and both scores.

        Scores are means over the seeds, with a standard deviation when there is more than one seed.
        """
        stage = self.stage
        score, by = (scope.quantity(column, stage) for column in (self.column, self.by))
        scope.grid(stage, [score.source])
        runs = without_copies(of_best_variants(scope, stage, by))
        cells = runs.groupby(["dataset", "row"])
        places = [
            (dataset, row) for dataset in scope.stages[stage] for row in scope.models if (dataset, row) in cells.groups
        ]
        index = pd.MultiIndex.from_tuples(places, names=["dataset", "row"])
        frame = pd.DataFrame({"dataset": [dataset for dataset, _ in places], "model": [row for _, row in places]})
        if len(scope.stages[stage]) == 1:
            frame = frame.drop(columns="dataset")
        frame["state_kib"] = cells[STATE].first().reindex(index).to_numpy() / 1024
        note = NOTE
        if stage in scope.variants:
            variants = {variant_name(each): each for each in scope.variants[stage]}
            chosen = cells["variant"].first().reindex(index)
            scores = [name for each in (by, score) for name in (each.name, f"{each.name}_sd")]
            called = setting_columns(scope.variants[stage][0], ["dataset", "model", "state_kib", *scores])
            for place, name in called.items():
                frame[name] = [spelled(variants[each][place]) for each in chosen]
            tried = "; ".join(
                f"{name} {', '.join(map(spelled, values))}" for name, values in searched(scope, stage).items()
            )
            note += f"Each row has the best of {tried} by {by.label.partition(' [')[0]}, mean over the seeds."
        columns = {"state_kib": Column("state size [KiB]", 2)}
        for each in (by, score):
            frame[each.name] = each.factor * cells[each.source].mean().reindex(index).to_numpy()
            columns[each.name] = Column(each.label, each.decimals)
            if cells.size().max() > 1:
                frame[f"{each.name}_sd"] = each.factor * cells[each.source].std().reindex(index).to_numpy()
        return Table(frame, columns, note.strip())


PANEL_INCHES = (3.6, 3.1)


class StateSizeFigure(StateSizeSettings, FigureSettings):
    """Accuracy on test against the state size of models, one panel per dataset and number in its `group`."""

    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    kind: Literal["state_size"]
    label: str | None = None
    """What the number in the group counts, such as `pairs`; null = the name of its column."""
    chance: Fraction | Literal["group"] | None = None
    """Accuracy of guessing, drawn as a dashed line; `group`: one over the number in the group, that of guessing among
    that number of answers."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw accuracy on test against the state size on a logarithmic axis, one panel per dataset and group.

        Points are means over the seeds of the variant that validation chose; a bar spans one standard deviation to
        either side where there is more than one seed. A line joins the models of a family in the order of their state
        sizes.
        """
        stage = self.stage
        scores = accuracy_by_group(of_best_variants(scope, stage, scope.quantity(self.by, stage)))
        datasets = scope.stages[stage]
        panels = [
            (dataset, group)
            for dataset in datasets
            if dataset in scores.index.unique("dataset")
            for group in sorted(scores.loc[dataset].index.unique("group"))
        ]
        styles = colours_and_markers(scope.families)
        figure, axes_of = panel_grid(len(panels), PANEL_INCHES)
        for axes, (dataset, group) in zip(axes_of, panels, strict=True):
            name = scope.group_names[dataset][group] if dataset in scope.group_names else group
            title = f"{name} {self.label or scope.groups[dataset]}"
            axes.set_title(title if len(datasets) == 1 else f"{scope.title(dataset)}: {title}")
            counts = self.chance == "group" and group and not isinstance(group, str)
            chance = 1 / group if counts else self.chance
            if isinstance(chance, float):
                axes.axhline(100 * chance, linestyle="--", linewidth=1, **BEHIND)
            sizes = {row: size / 1024 for row, size in scope.state_bytes[stage][dataset].items()}
            _draw_models(axes, scores.loc[dataset].xs(group, level="group"), sizes, styles, scope)
            axes.set(xlabel="state size [KiB]", ylim=(-3, 103))
        for axes in axes_of:
            axes.set_ylabel("test accuracy [%]")
        handles = {
            row: legend_entry(row, color=colour, marker=marker, linewidth=1.1, markersize=5)
            for row, (colour, marker) in styles.items()
        }
        if self.chance is not None:
            handles[CHANCE] = legend_entry(CHANCE, linestyle="--", linewidth=1, color=BEHIND["color"])
        legend_beside(figure, [*handles.values()], [*handles])
        return figure


def _draw_models(
    axes: Axes,
    scores: pd.DataFrame,
    sizes: dict[str, float],
    styles: dict[str, tuple[str, str]],
    scope: Scope,
) -> None:
    """Draw a point per model, and a line through the models of each family."""
    for family in dict.fromkeys(scope.families.values()):
        rows = [row for row in scope.models if scope.families[row] == family and row in scores.index]
        rows.sort(key=sizes.__getitem__)
        if len(rows) > 1:
            colour = styles[rows[0]][0]
            axes.plot([sizes[row] for row in rows], scores.loc[rows, "mean"], color=colour, linewidth=0.8, alpha=0.6)
        for row in rows:
            colour, marker = styles[row]
            deviation = scores.loc[row, "std"]
            style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 5}
            yerr = None if pd.isna(deviation) else deviation
            draw_points(axes, sizes[row], scores.loc[row, "mean"], row, yerr=yerr, **style)
    axes.set_xscale("log", base=4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.4g}"))
    axes.minorticks_off()


def of_best_variants(scope: Scope, stage: str, by: Quantity) -> pd.DataFrame:
    """Return the runs of a stage as `Scope.grid` does, of each row and dataset those of its best variant alone.

    Args:
        scope: whose runs.
        stage: with variants or without.
        by: score on validation; the variant with the best mean over the seeds is taken.

    Raises:
        DataError: as `variant_scores`.
    """
    grid = scope.grid(stage, [by.source])
    if stage not in scope.variants:
        return grid
    best = variant_scores(scope, stage, by)["best"]
    chosen = best[best].index
    return grid[pd.MultiIndex.from_frame(grid[["dataset", "row", "variant"]]).isin(chosen)]
