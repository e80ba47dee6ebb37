"""The trials of a tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import TypeAdapter, ValidationError

from lib.core.errors import DataError
from lib.core.files import read_mapping
from lib.core.record import CONFIG, TRIALS
from lib.core.search_space import Dimension, short_name, spelled
from lib.results.quantities import Quantity, of_validation
from lib.results.scope import Scope
from lib.results.settings import FigureSettings, TableSettings, Topic
from lib.results.style import PANEL_INCHES, STYLE, colours_and_markers, legend_beside, panel_grid
from lib.results.table import Column, Table
from lib.results.variants import setting_columns

SPACE = TypeAdapter(dict[str, Dimension])


@dataclass(frozen=True)
class Trials:
    """The trials of one run."""

    dataset: str
    row: str
    frame: pd.DataFrame
    """One row per trial: `number`; its settings by dotted name, numbers or, where values were listed, text; `score`, as
    tables show it, missing of one that diverged; `state` (`complete`, `pruned` or `diverged`); `epochs`; `seconds`;
    `best`, whether it is the best; and `best_so_far`, the best score of complete ones up to it."""
    space: Mapping[str, Dimension]
    """Range or list that each setting was drawn from, by dotted name."""
    score: Quantity


def load_trials(scope: Scope, stage: str) -> list[Trials]:
    """Return the trials of every run of a stage, in the order of datasets and rows.

    Raises:
        DataError: a run is missing, duplicated, or lacks its best trial; a table of trials, or what it was drawn from,
            is missing or damaged.
    """
    runs = scope.grid(stage, ["best_trial"]).set_index(["dataset", "row"])
    return [
        _load(dataset, row, Path(runs.loc[(dataset, row), "folder"]), int(runs.loc[(dataset, row), "best_trial"]))
        for dataset in scope.stages[stage]
        for row in scope.models
        if dataset in scope.made_for(stage, row)
    ]


def _load(dataset: str, row: str, folder: Path, best: int) -> Trials:
    try:
        tuning = read_mapping(folder / CONFIG).get("tuning") or {}
        space = SPACE.validate_python(tuning.get("space"))
    except ValidationError as error:
        raise DataError(
            f"{folder / CONFIG}: has no tuning ({error}). Delete the run's folder and run it again."
        ) from error
    try:
        found = pd.read_csv(folder / TRIALS, dtype=str, keep_default_na=False)  # a listed value may be called null
        (name,) = (column for column in found if column.startswith("eval_"))
        drawn = [place for place, dimension in space.items() if dimension.values is None]
        numbers = ["number", *drawn, name, "epochs", "seconds"]
        found = found[["number", *space, name, "state", "epochs", "seconds"]]
        found[numbers] = found[numbers].apply(pd.to_numeric)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder / TRIALS}: not a table of trials ({error}). Delete the run's folder and run it again."
        ) from error
    score = of_validation(name.removeprefix("eval_"))
    frame = found.rename(columns={name: "score"})
    frame["score"] *= score.factor
    frame["best"] = frame["number"] == best
    complete = frame["score"].where(frame["state"] == "complete")
    # The best is the highest or the lowest of all, as the task has it; if it is both, so are all others.
    rises = complete[frame["best"]].eq(complete.max()).all()
    frame["best_so_far"] = (complete.cummax() if rises else complete.cummin()).ffill()
    return Trials(dataset, row, frame, space, score)


OTHERS = ("dataset", "model", "trial", "state", "epochs", "minutes")
"""Columns that are neither settings nor scores."""
NOTE = (
    "Bold: the best trial, whose settings are chosen. The score of a pruned trial, which was ended early, is that of "
    "its last evaluation; one that diverged has none. Time is that of training loops."
)


class TrialsTable(TableSettings):
    """One row per trial of a stage with `tuning`: settings, score on validation, how it ended; the best one bold."""

    about: ClassVar[Topic] = "training"
    takes_tuning: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["trials"]
    stage: str
    """Stage with `tuning`."""

    def make(self, scope: Scope) -> Table:
        """Return one row per trial, with dataset and model where there are several.

        Tasks may choose by different scores: each has a column, which is empty in rows of the others.
        """
        searches = load_trials(scope, self.stage)
        scores = {each.score.name: each.score for each in searches}
        named = [each.frame.assign(dataset=each.dataset, model=each.row, by=each.score.name) for each in searches]
        rows = pd.concat(named, ignore_index=True)
        shown = pd.DataFrame({name: rows[name] for name in ("dataset", "model") if rows[name].nunique() > 1})
        shown["trial"] = rows["number"]
        space = searches[0].space
        for place, name in setting_columns(space, [*OTHERS, *scores]).items():
            shown[name] = [_printed(value, space[place]) for value in rows[place]]
        for name in scores:
            shown[name] = rows["score"].where(rows["by"] == name)
        shown[["state", "epochs"]] = rows[["state", "epochs"]]
        shown["minutes"] = rows["seconds"] / 60
        columns = {
            "trial": Column("trial", 0),
            **{name: Column(score.label, score.decimals) for name, score in scores.items()},
            "epochs": Column("epochs", 0 if (rows["epochs"] % 1 == 0).all() else 2),
            "minutes": Column("time [min]", 3),
        }
        bold = {name: (rows["best"] & (rows["by"] == name)).tolist() for name in scores}
        return Table(shown, columns, NOTE, bold)


def _printed(value: Any, dimension: Dimension) -> str:
    """Return a setting as text: listed ones and whole numbers as they are, other numbers with 4 significant digits."""
    if dimension.values:
        return value
    return f"{value:.0f}" if dimension.whole else f"{value:.4g}"


BEST = "best so far"
EDGE = 0.03
"""Height of trials without a score, as a share of the panel."""


class TrialsFigure(FigureSettings):
    """Scores by trial with the best so far, and a panel per setting that was searched; one figure per dataset."""

    about: ClassVar[Topic] = "training"
    divided: ClassVar[Literal["if_several"]] = "if_several"
    takes_tuning: ClassVar[Literal["needed"]] = "needed"

    kind: Literal["trials"]
    stage: str
    """Stage with `tuning`."""

    @matplotlib.style.context(STYLE)
    def draw(self, scope: Scope) -> Figure:
        """Draw the score of every trial by its number and against each of its settings, in the colour of its model.

        The line is the best score so far, a ring the best of all. Pruned trials are crosses, at the score of their last
        evaluation; one that diverged is a triangle at the lower edge. Scales are logarithmic where the space
        is.
        """
        searches = load_trials(scope, self.stage)
        space = searches[0].space
        label = "\nor ".join(dict.fromkeys(each.score.label for each in searches))  # models may learn different tasks
        styles = colours_and_markers({row: scope.families.get(row, row) for row in scope.models})
        figure, (by_trial, *panels) = panel_grid(1 + len(space), PANEL_INCHES)
        by_trial.set(xlabel="trial", ylabel=label)
        by_trial.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        for axes, (place, dimension) in zip(panels, space.items(), strict=True):
            axes.set(xlabel=short_name(place).replace("_", " "), ylabel=label)
            _set_scale(axes, dimension)
        for search in searches:
            colour, _ = styles[search.row]
            name = f" ({search.row})" if len(searches) > 1 else ""
            frame = search.frame
            _reach(by_trial, 0, len(frame) - 1)
            by_trial.step(
                frame["number"], frame["best_so_far"], where="post", color=colour, linewidth=1.1, label=BEST + name
            )
            _draw_trials(by_trial, frame["number"], frame, colour, name)
            for axes, (place, dimension) in zip(panels, space.items(), strict=True):
                _draw_trials(axes, _positions(frame[place], dimension), frame, colour, name)
        legend_beside(figure, *by_trial.get_legend_handles_labels())
        return figure


def _set_scale(axes: Axes, dimension: Dimension) -> None:
    if dimension.values is not None:
        axes.set_xticks(range(len(dimension.values)), list(map(spelled, dimension.values)))
        axes.set_xlim(-0.5, len(dimension.values) - 0.5)
        return
    if dimension.log:
        axes.set_xscale("log")
    elif dimension.whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    assert dimension.low is not None  # the settings were checked
    assert dimension.high is not None
    _reach(axes, dimension.low, dimension.high)


def _reach(axes: Axes, low: float, high: float) -> None:
    """Let a panel reach at least from `low` to `high`; markers at its edge do not widen it."""
    axes.update_datalim([(low, 0), (high, 0)], updatey=False)


def _positions(values: pd.Series, dimension: Dimension) -> pd.Series:
    """Return where the values of a setting stand: listed ones in their order, numbers where they are."""
    return values if dimension.values is None else values.map(list(map(spelled, dimension.values)).index)


def _draw_trials(axes: Axes, positions: pd.Series, frame: pd.DataFrame, colour: str, name: str) -> None:
    """Draw the trials of `frame` at those positions, each kind with a label for the legend, if there are some."""
    kinds: dict[str, dict[str, Any]] = {
        "complete": {"marker": "o", "s": 26},
        "pruned": {"marker": "x", "linewidths": 1.1, "s": 22},
        "diverged": {"marker": "v", "s": 22, "transform": axes.get_xaxis_transform()},
    }
    for state, style in kinds.items():
        chosen = frame["state"] == state
        if chosen.any():
            heights = frame.loc[chosen, "score"].fillna(EDGE)
            axes.scatter(positions[chosen], heights, color=colour, label=state + name, gid=state, zorder=2.5, **style)
    best = frame["best"]
    axes.scatter(
        positions[best], frame.loc[best, "score"], s=90, facecolors="none", edgecolors="black", gid="best", zorder=2.6,
        label="best" + name,
    )  # fmt: skip
