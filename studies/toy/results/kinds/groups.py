"""Accuracy by group of documents, such as their distance or length."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.core.errors import DataError
from lib.core.settings import BoundedFloat, Fraction
from lib.results.predictions import accuracy_by_group, load_items
from lib.results.scope import Scope
from lib.results.settings import MODEL, FigureSettings, TableSettings
from lib.results.style import BEHIND, CHANCE, STYLE, draw_points, legend_beside, line_styles, name_above
from lib.results.table import Column, Key, Table

MOST_GROUPS = 20
"""Groups whose sizes a note lists at most."""


class GroupsTable(TableSettings):
    """One table per dataset: accuracy on test by model and the dataset's `group`."""

    divided: ClassVar[Literal["if_several"]] = "if_several"
    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    kind: Literal["groups"]
    stage: str
    """Stage whose runs it shows."""
    label: str | None = None
    """Name of the number, such as `distance`; null = the name of its column."""
    rows: Literal["models", "groups"] = "models"
    """What the rows are; the others are columns. Groups with long names suit rows."""

    def make(self, scope: Scope) -> Table:
        """Return accuracy on test in percent: one row per model, one column per group, ascending, or turned.

        With more than one seed these are means with a standard deviation. Groups are called by what their
        number is, `distance_16`, `distance_32`, unless they have names.

        Raises:
            DataError: a run is missing or has no predictions by group, or two columns would be called alike.
        """
        (dataset,) = scope.stages[self.stage]
        group, names = self.label or scope.groups[dataset], scope.group_names.get(dataset)
        scores = accuracy_by_group(scope.grid(self.stage)).loc[dataset]
        means, deviations = (scores[column].unstack("group").loc[[*scope.models]] for column in ("mean", "std"))
        if names:
            means, deviations = (each.rename(columns=names.__getitem__) for each in (means, deviations))
        first, before = MODEL, [] if names else [group]
        if self.rows == "groups":
            means, deviations, first, before = means.T, deviations.T, group, []
        frame, columns = pd.DataFrame({first: [str(name) for name in means.index]}), {}
        for number in means:
            key = Key((*before, str(number)))
            frame[key] = means[number].to_numpy()
            columns[key] = Column(f"{' '.join(key.parts)} [%]", 2)
            if scores["std"].notna().any():
                frame[key.sd] = deviations[number].to_numpy()
        counts = Counter(map(str, frame))
        if twice := [name for name, count in counts.items() if count > 1]:
            raise DataError(
                f"{dataset}: the groups {', '.join(map(str, means))} would make two columns called {', '.join(twice)} "
                "(_sd is a standard deviation). Expected groups with different names. Rename one of them in the "
                "column of groups, or give the table `rows: groups`."
            )
        return Table(frame, columns, group_sizes_note(scope.grid(self.stage), group, names))


PANEL_INCHES = (4.2, 3.3)
SPREAD = 0.3
"""Share of the least distance between two groups over which the points of one group are spread."""


class GroupScoreFigure(FigureSettings):
    """Accuracy on test by the number in the dataset's `group`, one line per model, one panel per dataset."""

    needs_predictions: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True
    needs_groups: ClassVar[bool] = True

    kind: Literal["group_score"]
    stage: str
    """Stage whose score is drawn."""
    label: str | None = None
    """Name of the number, such as `distance [tokens]`; null = the name of its column."""
    chance: Fraction | None = None
    """Accuracy of guessing, drawn as a dashed line."""
    trained_to: BoundedFloat | None = None
    """Greatest number in the training documents, drawn as a vertical line."""

    def notes(self, scope: Scope) -> Iterator[str]:
        """See the base: they say how many items each accuracy is of."""
        grid = scope.grid(self.stage)
        several = grid["dataset"].nunique() > 1
        for dataset, runs in grid.groupby("dataset", sort=False):
            group, names = self.label or scope.groups[dataset], scope.group_names.get(dataset)
            yield group_sizes_note(runs, group, names, scope.title(dataset) if several else None)

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw accuracy on test by group, one panel per dataset.

        Lines are means over the seeds; a bar spans one standard deviation to either side where there is more than one
        seed. The axis of the number is logarithmic where its greatest is more than ten times its least. Groups with
        names stand next to each other without lines between them.
        """
        scores = accuracy_by_group(scope.grid(self.stage))
        drawn = scores.index.unique("row")
        styles = line_styles({row: family for row, family in scope.families.items() if row in drawn})
        datasets = [dataset for dataset in scope.stages[self.stage] if dataset in scores.index.unique("dataset")]
        chance, trained_to = self.chance, self.trained_to
        width, height = PANEL_INCHES
        figure = Figure(figsize=(width * len(datasets), height), layout="constrained")
        panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            axes.set_title(scope.title(dataset), pad=None if trained_to is None else 14)  # above the name of the line
            axes.set_xlabel(self.label or scope.groups[dataset])
            _draw_groups(axes, scores.loc[dataset], styles, scope.group_names.get(dataset))
            if chance is not None:
                axes.axhline(100 * chance, linestyle="--", linewidth=1, label=CHANCE, gid=CHANCE, **BEHIND)
            if trained_to is not None:
                axes.axvline(trained_to, linewidth=0.8, **BEHIND)
                name_above(axes, trained_to, f"trained to {trained_to:g}")
        low, high = panels[0].get_ylim()
        panels[0].set(ylabel="test accuracy [%]", ylim=(max(low, -3), min(high, 103)))  # bars may pass 0 and 100
        handles = {line.get_gid(): line for axes in panels for line in axes.lines}
        names = [*styles, *([CHANCE] if CHANCE in handles else [])]
        legend_beside(figure, [handles[name] for name in names], names)
        return figure


def _draw_groups(
    axes: Axes, scores: pd.DataFrame, styles: Mapping[str, dict[str, Any]], names: Sequence[str] | None
) -> None:
    """Draw a line for each model; its points are shifted a little, so that no bar covers another."""
    groups = scores.index.unique("group").sort_values().to_numpy()
    words = isinstance(groups[0], str)
    labels = groups.tolist() if words else [names[group] for group in groups] if names else None
    logarithmic = not labels and groups[0] > 0 and groups[-1] > 10 * groups[0]
    places = np.arange(len(groups)) if words else np.log(groups) if logarithmic else groups
    ranks = np.arange(len(styles)) - (len(styles) - 1) / 2
    shifts = SPREAD * np.diff(places).min(initial=places[-1] - places[0]) * ranks / len(styles)
    for shift, (model, style) in zip(shifts, styles.items(), strict=True):
        if model not in scores.index:
            continue
        line = scores.loc[model].reindex(groups)  # a model that reads less of a document may lack a group
        x = np.exp(places + shift) if logarithmic else places + shift
        axes.plot(x, line["mean"], **style | ({"linestyle": "none"} if labels else {}))
        if line["std"].notna().any():
            bars: dict[str, Any] = {"ecolor": style["color"], "alpha": 0.6}
            draw_points(axes, x, line["mean"], yerr=line["std"], fmt="none", **bars)
    if logarithmic:
        axes.set_xscale("log")
    if labels:
        axes.set_xticks(places, labels, rotation=40, ha="right", rotation_mode="anchor")
    else:
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


def group_sizes_note(grid: pd.DataFrame, group: str, names: Sequence[str] | None, title: str | None = None) -> str:
    """Return a sentence on how many labelled items of test each group of documents of a dataset has.

    Args:
        grid: runs on the dataset, as `Scope.grid` gives them.
        group: the meaning of the groups, such as `distance`.
        names: of the groups, by number; None = they are numbers.
        title: of the dataset, where others are shown as well.

    Raises:
        DataError: the first run has no predictions by group.
    """
    sizes = load_items(grid["folder"].iloc[0], ["group"])["group"].value_counts().sort_index()
    listed = ", ".join(f"{names[number] if names else number} ({size})" for number, size in sizes.items())
    if len(sizes) > MOST_GROUPS:
        listed = f"{sizes.min()} to {sizes.max()} each of {len(sizes)}"
    on = f" on {title}" if title else ""
    return f"Labelled items of test{on} by {group}: {listed}."
